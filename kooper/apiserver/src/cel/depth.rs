//! The depth of an expression, which is limited.

/// As in cel-go.
pub(super) const LIMIT: usize = 250;

/// At least how deep the tree of an expression is: each bracket and each operator may add a level; what stands
/// between commas, `&&` and `||` stands side by side.
pub(super) fn of(rule: &str) -> usize {
    let (mut outer, mut here, mut deepest) = (Vec::new(), 0, 0);
    let mut bytes = rule.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' | b'\'' => {
                while let Some(inside) = bytes.next().filter(|&inside| inside != byte) {
                    if inside == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'(' | b'[' | b'{' => {
                outer.push(here);
                here += 1;
            }
            b')' | b']' | b'}' => here = outer.pop().unwrap_or_default() + 1,
            b'&' | b'|' | b',' => here = outer.last().map_or(0, |outside| outside + 1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'.' | b'?' | b':' => here += 1,
            _ => {}
        }
        deepest = deepest.max(here);
    }
    deepest
}
