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
