//! Suggestions for misspelled words.

/// The candidate that is most similar to a word, if one is similar enough.
///
/// Case and the difference between `-` and `_` are ignored; two swapped letters count as
/// one mistake.
///
/// ```
/// use kooper_grammar::suggest::nearest;
/// assert_eq!(nearest("resorce", ["resource", "resync"]), Some("resource"));
/// assert_eq!(nearest("banana", ["resource", "resync"]), None);
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = plain(candidate);
            let distance = distance(&word, &other);
            let allowed = word.len().max(other.len()).max(3) / 3;
            (distance <= allowed).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The letters of a word for the comparison.
fn plain(word: &str) -> Vec<char> {
    word.chars().flat_map(char::to_lowercase).map(|c| if c == '-' { '_' } else { c }).collect()
}

/// The smallest number of insertions, deletions, replacements and swaps of neighbours
/// that turns one word into the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, y) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}
