use kooper_base::leader::lease_state::LeaseWrite;

use super::*;
use crate::hash::ShardCount;

const WALL: i64 = 1_700_000_000_000_000;

fn count(count: u16) -> ShardCount {
    count.try_into().unwrap()
}

fn slot(identity: &str, age: i64, leaving: bool) -> SlotRecord {
    let renewed = WALL - age * 1_000_000;
    let write = LeaseWrite { base: None, holder: identity.into(), seconds: 15, acquired: 17, renewed, transitions: 0 };
    let announcement =
        Announcement { count: count(4), by: ShardField::Uid, leaving, map: None, warm: BTreeSet::new(), of: count(4) };
    let record = Record::stored(&write, &"shop/shards".into(), "1".into());
    SlotRecord { record, announcement: Some(announcement) }
}

fn session(slot: u8, identity: &str) -> Session {
    Session { slot, acquired: 17, identity: identity.into() }
}

/// Two replicas work, one has crashed, and one that has ended owned shard 3.
fn overview(overrides: Overrides) -> ShardOverview {
    overview_at(WALL, overrides)
}

fn slots() -> Slots {
    let slots = [Some(slot("pod-a_1", 1, false)), Some(slot("pod-b_2", 2, false)), Some(slot("pod-c_3", 20, false))];
    (0..).zip(slots).map(|(index, slot)| (format!("shop--{index}"), slot)).collect()
}

fn overview_at(wall: i64, overrides: Overrides) -> ShardOverview {
    let mut map = ShardMap::new(ShardField::Uid, count(4), 0);
    map.assign(Shard(0), Some(session(0, "pod-a_1")));
    map.assign(Shard(1), Some(session(1, "pod-b_2")));
    map.assign(Shard(2), Some(session(2, "pod-c_3")));
    ShardOverview::new("trade/shop".into(), "7".into(), map, overrides, slots(), wall)
}

fn requested(overview: &ShardOverview, changes: &[Change]) -> Result<Option<String>, String> {
    let patch = overview.patch(changes).map_err(|error| error.to_string())?;
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    Ok(patch["metadata"]["annotations"][OVERRIDES].as_str().map(str::to_owned))
}

#[test]
fn each_shard_is_shown_with_its_owner_and_its_state() {
    let drained = ["pod-b_2".to_owned()].into();
    let overview = overview(Overrides { drained, ..Overrides::default() });
    let rows: Vec<_> = overview.shards().map(|row| (row.buckets, row.owner, row.state)).collect();
    let pod = |name: &str| Some(name.to_owned());
    assert_eq!(
        rows,
        [
            ((0, 63), pod("pod-a"), ShardState::Owned),
            ((64, 127), pod("pod-b"), ShardState::Moving("pod-a".to_owned())),
            ((128, 191), pod("pod-c"), ShardState::Orphaned),
            ((192, 255), None, ShardState::Free),
        ]
    );
    let shards = Shards::new(4);
    let members: Vec<_> = overview.members(&shards).map(|row| (row.replica, row.shards, row.has_expired)).collect();
    let member = |name: &str, has_expired| (name.to_owned(), 1, has_expired);
    assert_eq!(members, [member("pod-a", false), member("pod-b", false), member("pod-c", true)]);
    assert!(overview.members(&shards).all(|row| row.is_drained == (row.replica == "pod-b") && row.other.is_none()));
    let other = overview.members(&Shards::new(8)).next().and_then(|row| row.other);
    assert_eq!(other.as_deref(), Some("4 shards by uid"));
    assert!(!overview.differs_from(&shards) && overview.differs_from(&Shards::new(8)));
}

#[test]
fn a_clock_that_is_half_a_minute_off_does_not_matter_and_a_program_that_is_gone_is_noticed() {
    let expired = |seconds: i64| {
        let overview = overview_at(WALL + seconds * 1_000_000, Overrides::default());
        overview.members(&Shards::new(4)).map(|row| row.has_expired).collect::<Vec<_>>()
    };
    for seconds in [-3600, -30, 30] {
        assert_eq!(expired(seconds), [false, false, true], "{seconds}");
    }
    assert_eq!(expired(120), [true; 3]);
}

#[test]
fn a_change_is_requested_and_undone() {
    let moved = requested(&overview(Overrides::default()), &[Change::Move(1, "pod-a".to_owned())]);
    let moved = moved.unwrap().unwrap();
    assert_eq!(moved, r#"{"of":4,"moved":{"1":"pod-a_1"}}"#);
    let overview = overview(Overrides::parse(Some(&moved)));
    assert_eq!(overview.shards().nth(1).and_then(|row| row.moved).as_deref(), Some("pod-a"));
    assert_eq!(requested(&overview, &[Change::UndoMove(1)]), Ok(None));
    let both = requested(&overview, &[Change::Drain("pod-b_2".to_owned())]).unwrap().unwrap();
    assert_eq!(both, r#"{"of":4,"moved":{"1":"pod-a_1"},"drained":["pod-b_2"]}"#);
    let drained = [Change::Drain("pod-b".to_owned()), Change::UndoDrain("pod-b".to_owned())];
    assert_eq!(requested(&overview, &drained), Ok(Some(moved)));
}

#[test]
fn what_refers_to_nothing_is_refused() {
    let drained = ["pod-b_2".to_owned()].into();
    let overview = overview(Overrides { drained, ..Overrides::default() });
    let pod = |name: &str| name.to_owned();
    for (change, error) in [
        (Change::Move(4, pod("pod-a")), "there is no shard 4: the shards are 0 to 3"),
        (Change::Move(1, pod("pod")), "there is no replica `pod`: those that run are pod-a, pod-b"),
        (Change::Move(1, pod("pod-b")), "pod-b is drained: undo this first, with `--undo-drain pod-b`"),
        (
            Change::Drain(pod("pod-a")),
            "pod-a is the only replica that is not drained: another one has to take its shards",
        ),
        (Change::UndoMove(0), "shard 0 was not moved, so there is nothing to undo"),
        (Change::UndoDrain(pod("pod-a")), "`pod-a` is not drained, so there is nothing to undo"),
    ] {
        assert_eq!(requested(&overview, &[change]), Err(error.to_owned()));
    }
}

#[test]
fn replicas_on_one_host_have_their_whole_identity() {
    let all = ["host_1", "host_2", "other_3"].into();
    assert_eq!(name(&all, "host_1"), "host_1");
    assert_eq!(name(&all, "other_3"), "other");
}

#[test]
fn overrides_of_replicas_that_have_ended_are_removed() {
    let overrides = Overrides {
        of: Some(count(4)),
        moved: [(Shard(0), "gone_9".to_owned())].into(),
        drained: ["gone_9".to_owned(), "pod-b_2".to_owned()].into(),
        rejected: Vec::new(),
    };
    let text = requested(&overview(overrides), &[Change::UndoDrain("pod-b".to_owned())]);
    assert_eq!(text, Ok(None));
}

#[test]
fn an_entry_that_cannot_be_read_is_shown_and_not_lost_by_a_change() {
    let overview = overview(Overrides::parse(Some(r#"{"drained":["pod-b_2",null],"moved":{"300":"pod-a_1"}}"#)));
    let entries = [
        r#"`"300": "pod-a_1"` in `moved` must be a shard from 0 to 255 and a replica, such as "3":"shop-7d4b9_0a1b""#,
        r#"`null` in `drained` must be a replica, such as "shop-7d4b9_0a1b""#,
    ];
    let shown = "an entry of the annotation kooper.rs/shards-overrides of the Lease trade/shop has no effect: ";
    assert_eq!(overview.rejected().collect::<Vec<_>>(), entries.map(|entry| format!("{shown}{entry}")));
    for change in [Change::UndoDrain("pod-b".to_owned()), Change::Move(1, "pod-a".to_owned())] {
        let refused = requested(&overview, &[change]).unwrap_err();
        assert!(
            refused.contains(&format!("which this change would remove: {}. Correct", entries.join("; "))),
            "{refused}"
        );
        assert!(refused.starts_with("the annotation kooper.rs/shards-overrides of the Lease trade/shop "), "{refused}");
    }
    // It concerns another controller: this one is not written.
    let elsewhere = requested(&overview, &[Change::Drain("pod".to_owned())]).unwrap_err();
    assert!(elsewhere.starts_with("there is no replica `pod`"), "{elsewhere}");
    assert!(overview.patch(&[]).is_ok());
}

#[test]
fn if_replicas_run_and_there_is_no_map_the_error_names_them_and_says_where_the_reason_is() {
    let error = |wall| no_map("trade/shop".to_owned(), &members(slots(), wall)).to_string();
    let running = error(WALL);
    assert!(running.contains("although these replicas run: pod-a, pod-b. "), "{running}");
    assert!(running.contains("`check --as` verifies the permissions"), "{running}");
    let ended = error(WALL + 120_000_000);
    assert!(ended.contains("no replica of the program runs"), "{ended}");
}
