//! Prints the lines of each crate and folder, and the imports between them:
//! what `.ci/measure lines` shows.

use kooper_tests::layers::{CRATES, circles, dependencies, edges, lines};

fn main() {
    let mut total = 0;
    for krate in CRATES {
        let lines = lines(krate);
        let sum: usize = lines.values().sum();
        total += sum;
        println!("{krate}: {sum} lines");
        let mut sorted: Vec<_> = lines.into_iter().collect();
        sorted.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
        for (folder, lines) in sorted {
            println!("  {lines:>6} {folder}");
        }
        let edges = edges(krate).remove(&Vec::new()).unwrap_or_default();
        let arrows: usize = edges.values().map(std::collections::BTreeSet::len).sum();
        let circles = circles(krate);
        println!("  {} folders and files, {arrows} arrows between them, {} circles", edges.len(), circles.len());
        for circle in circles {
            println!("  in {circle}");
        }
    }
    let arrows: usize = dependencies().values().map(std::collections::BTreeSet::len).sum();
    println!("all {} crates: {total} lines besides tests, {arrows} arrows between them", CRATES.len());
}
