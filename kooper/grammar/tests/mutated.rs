//! A grammar accepts any string or returns an error; it never panics.

use kooper_fuzz::fuzz;
use kooper_grammar::access::Rule;
use kooper_grammar::cron::{Minute, Schedule};
use kooper_grammar::selector::{FieldSelector, Selector};
use kooper_grammar::{duration, name};

#[test]
fn mutated_texts_are_accepted_or_refused() {
    let seeds = [
        "app=web,tier in (a,b),env notin (x),!gone,here,n>3,m<-4,a==b,c!=d",
        "example.com/tier in (a, b)",
        "metadata.name=a,spec.nodeName!=b,type=Opaque",
        "a=b\\,c,d=e\\=f",
        "1h30m",
        "90s",
        "2d",
        "100ms",
        "*/15 1,3-5 ? jan,jul mon-fri",
        "0 0 29 2 *",
        "apps/deployments: get, patch",
        "pods/binding: create",
        "secrets(a, b): get",
        "example.com/v1",
        "a.b-c.d",
        "My-Name_1",
    ];
    let words = &["in", "notin", "(", ")", "!", "!=", "==", "=", ",", "\\", "<", ">", "ms", "h", "*", "get"];
    fuzz("grammars", seeds.map(|seed| seed.as_bytes().to_vec()), words, |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(selector) = Selector::parse(&text) {
            selector.matches(|key| (key.len() % 2 == 0).then_some("3"));
            assert_eq!(selector.is_empty(), selector.requirements().is_empty());
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            selector.matches(|path| (path.len() % 2 == 0).then_some("a"));
            assert_eq!(selector.is_empty(), selector.terms().next().is_none());
        }
        if let Ok(parsed) = duration::parse(&text) {
            assert_eq!(duration::parse(&duration::format(parsed)), Ok(parsed), "{text}");
        }
        if let Ok(schedule) = Schedule::parse(&text) {
            let time = Minute { year: 2026, month: 2, day: 28, hour: 23, minute: 59 };
            assert!(schedule.after(time).is_some_and(|next| next > time), "{text}");
        }
        drop(Rule::parse(&text));
        for check in [name::label, name::subdomain, name::qualified, name::finalizer, name::label_value] {
            drop(check(&text));
        }
        drop(name::kebab(&text));
    });
}
