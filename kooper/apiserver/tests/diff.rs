//! The lines of two texts: what is in both, and what is in one alone.

/// The lines in their order, each with a mark: a space, `-` for the first text alone, or `+` for the second.
pub(crate) fn lines<'a>(ours: &'a str, theirs: &'a str) -> Vec<(char, &'a str)> {
    let (ours, theirs): (Vec<_>, Vec<_>) = (ours.lines().collect(), theirs.lines().collect());
    // The longest common subsequence from each pair of positions on.
    let mut common = vec![vec![0_usize; theirs.len() + 1]; ours.len() + 1];
    for (i, one) in ours.iter().enumerate().rev() {
        for (j, other) in theirs.iter().enumerate().rev() {
            common[i][j] = if one == other { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < ours.len() || j < theirs.len() {
        if i < ours.len() && j < theirs.len() && ours[i] == theirs[j] {
            lines.push((' ', ours[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == theirs.len() || i < ours.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(('-', ours[i]));
            i += 1;
        } else {
            lines.push(('+', theirs[j]));
            j += 1;
        }
    }
    lines
}
