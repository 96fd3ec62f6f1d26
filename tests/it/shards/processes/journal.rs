//! The notes of processes and of the test, in a file to which all of them add lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// A call of an object by a process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) who: String,
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) term: u64,
}

/// A line of the file.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    /// With the time in microseconds, the value in the object, and the reasons.
    Begins {
        call: Call,
        at: i64,
        value: String,
        reasons: String,
    },
    Ends(Call),
    /// It was dropped before it ended.
    Aborts(Call),
    /// The object is stored in this version.
    Wrote(Call, u64),
    /// The process was killed or paused by the test.
    Stopped(String),
}

impl Note {
    fn parse(line: &str) -> Self {
        let call = |who: &str, uid: &str, namespace: &str, term: &str| Call {
            who: who.to_owned(),
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            term: term.parse().unwrap(),
        };
        match line.split(' ').collect::<Vec<_>>()[..] {
            [who, "begins", uid, namespace, term, at, value, reasons] => Self::Begins {
                call: call(who, uid, namespace, term),
                at: at.parse().unwrap(),
                value: value.to_owned(),
                reasons: reasons.to_owned(),
            },
            [who, "ends", uid, namespace, term] => Self::Ends(call(who, uid, namespace, term)),
            [who, "aborts", uid, namespace, term] => Self::Aborts(call(who, uid, namespace, term)),
            [who, "wrote", uid, namespace, term, version] => {
                Self::Wrote(call(who, uid, namespace, term), version.parse().unwrap())
            }
            [who, "stopped"] => Self::Stopped(who.to_owned()),
            _ => panic!("a line of another form: {line}"),
        }
    }
}

/// The unit that may be in one process at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Object,
    Namespace,
}

impl Unit {
    fn of(self, call: &Call) -> String {
        match self {
            Self::Object => call.uid.clone(),
            Self::Namespace => call.namespace.clone(),
        }
    }
}

pub(crate) struct Journal(pub(crate) PathBuf);

impl Journal {
    /// The place where the next line is added.
    pub(crate) fn end(&self) -> u64 {
        std::fs::metadata(&self.0).map_or(0, |file| file.len())
    }

    /// The lines from this place.
    pub(crate) fn since(&self, place: u64) -> Vec<Note> {
        let Ok(mut file) = std::fs::File::open(&self.0) else { return Vec::new() };
        let mut text = String::new();
        file.seek(SeekFrom::Start(place)).unwrap();
        file.read_to_string(&mut text).unwrap();
        // The text after the last line feed is still being written.
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(Note::parse).collect()
    }

    /// Adds that a process was killed or paused.
    pub(crate) fn stopped(&self, name: &str) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0);
        file.unwrap().write_all(format!("{name} stopped\n").as_bytes()).unwrap();
    }

    /// The calls that this process has begun since this place.
    pub(crate) fn begun_by(&self, name: &str, place: u64) -> usize {
        let by = |note: &Note| matches!(note, Note::Begins { call, .. } if call.who == name);
        self.since(place).iter().filter(|note| by(note)).count()
    }

    /// The objects that were handled with this value since this place.
    pub(crate) fn handled(&self, wanted: &str, place: u64) -> BTreeSet<String> {
        let uid = |note| match note {
            Note::Begins { call, value, .. } if value == wanted => Some(call.uid),
            _ => None,
        };
        self.since(place).into_iter().filter_map(uid).collect()
    }

    /// The objects that this process was the last one to handle.
    pub(crate) fn last_handled_by(&self, name: &str) -> BTreeSet<String> {
        let mut last = BTreeMap::new();
        for note in self.since(0) {
            if let Note::Begins { call, .. } = note {
                last.insert(call.uid, call.who);
            }
        }
        last.into_iter().filter(|(_, who)| who == name).map(|(uid, _)| uid).collect()
    }

    /// The calls of this process that run.
    pub(crate) fn running(&self, name: &str) -> BTreeSet<Call> {
        let mut running = BTreeSet::new();
        for note in self.since(0) {
            match note {
                Note::Begins { call, .. } if call.who == name => drop(running.insert(call)),
                Note::Ends(call) | Note::Aborts(call) => drop(running.remove(&call)),
                Note::Stopped(who) if who == name => running.clear(),
                _ => {}
            }
        }
        running
    }

    /// Nothing is in two hands: no call of it begins while one runs in another process or of the same object, terms
    /// never go back, and neither do those of the writes of an object, in the order in which the API server has stored
    /// them.
    pub(crate) fn check(&self, unit: Unit) {
        match replay(self.since(0), unit) {
            Ok(done) => println!("{done}"),
            Err(fault) => panic!("{fault}"),
        }
    }
}

/// The amount of work, or an error.
fn replay(notes: Vec<Note>, unit: Unit) -> Result<String, String> {
    let (mut running, mut stopped) = (BTreeMap::<String, BTreeSet<Call>>::new(), BTreeSet::new());
    // The processes that were stopped, and their calls that were admitted before and begin after a pause.
    let (mut paused, mut late) = (BTreeSet::new(), BTreeSet::new());
    let (mut terms, mut writes) = (BTreeMap::<String, u64>::new(), BTreeMap::<String, BTreeMap<u64, u64>>::new());
    let (mut calls, mut aborted) = (0, 0);
    for note in notes {
        aborted += usize::from(matches!(note, Note::Aborts(_)));
        match note {
            Note::Begins { call, .. } => {
                let others = running.entry(unit.of(&call)).or_default();
                let last = terms.get(&unit.of(&call)).copied().unwrap_or_default();
                let other = others.iter().find(|other| other.who != call.who || other.uid == call.uid);
                if last > call.term && paused.contains(&call.who) {
                    late.insert(call);
                    continue;
                }
                if let Some(other) = other {
                    return Err(format!("{call:?} begins while {other:?} runs"));
                }
                if last > call.term {
                    return Err(format!("{call:?} begins after term {last}"));
                }
                terms.insert(unit.of(&call), call.term);
                others.insert(call);
                calls += 1;
            }
            Note::Aborts(call) if late.remove(&call) => {}
            Note::Ends(call) | Note::Aborts(call) => {
                let has_run = running.get_mut(&unit.of(&call)).is_some_and(|running| running.remove(&call));
                // One that was paused ends when its process continues: another process may have begun since.
                if !has_run && !stopped.remove(&call) {
                    return Err(format!("{call:?} has ended without a beginning"));
                }
            }
            Note::Wrote(call, version) => drop(writes.entry(call.uid).or_default().insert(version, call.term)),
            Note::Stopped(name) => {
                for calls in running.values_mut() {
                    let (own, others): (BTreeSet<Call>, _) =
                        std::mem::take(calls).into_iter().partition(|call| call.who == name);
                    stopped.extend(own);
                    *calls = others;
                }
                // One that has ended after a pause aborts nothing.
                late.retain(|call| call.who != name);
                paused.insert(name);
            }
        }
    }
    if let Some(call) = late.first() {
        return Err(format!("{call:?} was not aborted after the pause"));
    }
    if let Some((uid, written)) = writes.iter().find(|(_, written)| !written.values().is_sorted()) {
        return Err(format!("the terms in which {uid} was written, by version: {written:?}"));
    }
    let writes: usize = writes.values().map(BTreeMap::len).sum();
    Ok(format!("{calls} calls, of which {aborted} were aborted, and {writes} writes"))
}

#[test]
fn what_is_in_two_hands_is_found() {
    let begins = |who: &str, uid: &str, term: u64| format!("{who} begins {uid} shop {term} 17 value change");
    let other = |who: &str, what: &str, rest: &str| format!("{who} {what} {rest}");
    let [begun, again] = [begins("a", "x", 3), begins("b", "x", 4)];
    let [ended, aborted] = ["ends", "aborts"].map(|what| other("a", what, "x shop 3"));
    let fault = |lines: &[&str], unit| replay(lines.iter().map(|line| Note::parse(line)).collect(), unit).err();
    let is_fault = |lines: &[&str], part: &str| {
        let found = fault(lines, Unit::Object).unwrap_or_default();
        assert!(found.contains(part), "{lines:?}: {found}");
    };
    assert_eq!(fault(&[&begun, &ended, &again], Unit::Object), None);
    assert_eq!(fault(&[&begun, &aborted, &again], Unit::Object), None);
    assert_eq!(fault(&[&begun, "a stopped", &again, &ended], Unit::Object), None);
    // A call that was about to begin when its process was paused.
    assert_eq!(fault(&["a stopped", &again, &begun, &aborted], Unit::Object), None);
    assert_eq!(fault(&["a stopped", &again, &begun, "a stopped"], Unit::Object), None);
    is_fault(&["a stopped", &again, &begun, &ended], "without a beginning");
    is_fault(&["a stopped", &again, &begun], "not aborted");
    is_fault(&[&begun, &again, &ended], "runs");
    is_fault(&[&begun, &begins("a", "x", 3)], "runs");
    is_fault(&[&begun, "b stopped", &again], "runs");
    is_fault(&[&again, &other("b", "ends", "x shop 4"), &begun], "after term 4");
    is_fault(&[&begun, &ended, &ended], "without a beginning");
    is_fault(&[&other("a", "wrote", "x shop 3 9"), &other("b", "wrote", "x shop 4 8")], "by version");

    let neighbour = begins("b", "y", 4);
    assert_eq!(fault(&[&begun, &neighbour], Unit::Object), None);
    assert_eq!(fault(&[&begun, &begins("a", "y", 3)], Unit::Namespace), None);
    assert!(fault(&[&begun, &neighbour], Unit::Namespace).is_some_and(|fault| fault.contains("runs")));
}
