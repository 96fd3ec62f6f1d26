//! The order of keys: letters by their code, numbers by their value.

use std::cmp::Ordering;

/// Compares two keys as the real server sorts them.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let Some(at) = left.iter().zip(&right).position(|(one, other)| one != other) else {
        return left.len().cmp(&right.len());
    };
    let (a, b) = (left[at], right[at]);
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside of a number is a digit of it.
    let inside = left[..at].iter().rev().take_while(|digit| digit.is_ascii_digit()).any(|digit| *digit != '0');
    let start = u64::from((a == '0' || b == '0') && inside);
    let number = |characters: &[char]| {
        let digits = characters[at..].iter().map_while(|digit| digit.to_digit(10));
        digits.fold((start, 0), |(value, length): (u64, usize), digit| {
            (value.wrapping_mul(10).wrapping_add(digit.into()), length + 1)
        })
    };
    number(&left).cmp(&number(&right)).then(a.cmp(&b))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn keys_are_sorted_as_on_the_real_server() {
        let mut keys = vec!["b", "a10", "a2", "a", "B", ".", "f:b", "f:a", "k:{}", "a-b", "ab", "10", "9", "a.b/c"];
        keys.sort_by(|one, other| compare(one, other));
        assert_eq!(keys, [".", "9", "10", "B", "a", "a-b", "a.b/c", "a2", "a10", "ab", "b", "f:a", "f:b", "k:{}"]);
    }
}
