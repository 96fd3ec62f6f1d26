//! Values that differ as real ones do, and are the same in each run.
//!
//! A program may keep its objects compressed. Copies of one object would then cost it next to nothing.

use serde_json::{Value, json};

/// Words from which names are made.
const WORDS: [&str; 32] = [
    "account", "archive", "basket", "billing", "catalog", "checkout", "customer", "delivery", "discount", "export",
    "feed", "gateway", "import", "invoice", "ledger", "loyalty", "mailer", "notice", "order", "partner", "payment",
    "pricing", "profile", "refund", "report", "review", "search", "session", "stock", "tracking", "voucher", "wallet",
];

/// A sequence of numbers that a seed decides (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// The sequence of a seed; `of` keeps the sequences of different things apart.
    pub(crate) fn new(of: u64, seed: usize) -> Self {
        let mut dice = Self(of.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ seed as u64);
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// So many hexadecimal digits.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            text.push_str(&format!("{:016x}", self.next()));
        }
        text.truncate(digits);
        text
    }

    /// A word.
    pub(crate) fn word(&mut self) -> &'static str {
        WORDS[self.below(32) as usize]
    }

    /// A version.
    pub(crate) fn version(&mut self) -> String {
        format!("{}.{}.{}", self.below(9) + 1, self.below(40), self.below(20))
    }

    /// A unique id.
    pub(crate) fn uid(&mut self) -> String {
        let [a, b, c, d, e] = [8, 3, 3, 3, 12].map(|digits| self.hex(digits));
        format!("{a}-{b}0-4{c}-8{d}-{e}")
    }

    /// A time within a month.
    pub(crate) fn time(&mut self) -> String {
        let [day, hour, minute, second] = [28, 24, 60, 60].map(|limit| self.below(limit));
        format!("2025-01-{:02}T{hour:02}:{minute:02}:{second:02}Z", day + 1)
    }

    /// An environment variable or setting with its value.
    pub(crate) fn setting(&mut self, name: &str) -> Value {
        let value = match self.below(4) {
            0 => self.below(100_000).to_string(),
            1 => format!("https://{}.{}.svc:{}/{}", self.word(), self.word(), 8_000 + self.below(2_000), self.word()),
            2 => format!("{}-{}", self.word(), self.hex(8)),
            _ => self.hex(20),
        };
        json!({ "name": name, "value": value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_and_another_differs() {
        let text = |of, seed| Dice::new(of, seed).hex(64);
        assert_eq!(text(1, 7), text(1, 7));
        assert_ne!(text(1, 7), text(1, 8));
        assert_ne!(text(1, 7), text(2, 7));
        assert_eq!(Dice::new(1, 7).uid().len(), 36);
    }
}
