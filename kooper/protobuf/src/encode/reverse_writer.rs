//! Bytes that are written from their end.

/// Messages are written from their end, because the length of each is before it.
#[derive(Debug, Default)]
pub(crate) struct ReverseWriter {
    /// In the wrong order.
    reversed: Vec<u8>,
}

impl ReverseWriter {
    /// The number of bytes written so far. The next bytes are put before them.
    pub(crate) fn len(&self) -> usize {
        self.reversed.len()
    }

    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.reversed.reverse();
        self.reversed
    }

    /// Writes a field of bytes.
    pub(crate) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.reversed.extend(bytes.iter().rev());
        self.tag(number, bytes.len());
    }

    /// Makes what was written since `end` the value of a field.
    pub(crate) fn length(&mut self, number: u32, end: usize) {
        let length = self.len() - end;
        self.tag(number, length);
    }

    /// Writes number and length of a field whose bytes follow.
    pub(crate) fn tag(&mut self, number: u32, length: usize) {
        self.number(length as u64);
        self.number(u64::from(number << 3 | 2));
    }

    pub(crate) fn varint(&mut self, number: u32, value: u64) {
        self.number(value);
        self.number(u64::from(number << 3));
    }

    pub(crate) fn fixed64(&mut self, number: u32, bits: u64) {
        self.reversed.extend(bits.to_be_bytes());
        self.number(u64::from(number << 3 | 1));
    }

    fn number(&mut self, mut number: u64) {
        let from = self.reversed.len();
        loop {
            let more = if number > 0x7f { 0x80 } else { 0 };
            self.reversed.push((number & 0x7f) as u8 | more);
            number >>= 7;
            if more == 0 {
                break;
            }
        }
        self.reversed[from..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::ReverseWriter;

    #[test]
    fn fields_are_in_the_order_of_the_wire() {
        let mut bytes = ReverseWriter::default();
        bytes.fixed64(4, 1.0_f64.to_bits());
        bytes.varint(3, 300);
        let end = bytes.len();
        bytes.bytes(1, b"ab");
        bytes.length(2, end);
        let expected = [0x12, 4, 0x0a, 2, b'a', b'b', 0x18, 0xac, 0x02, 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        assert_eq!(bytes.into_bytes(), expected);
    }
}
