//! Inputs that are almost valid.

use std::ops::Range;

use fastrand::Rng;

/// The longest input, unless a seed is longer.
const LONGEST: usize = 1 << 14;

/// Words that parsers of numbers, strings and lengths often get wrong.
const WORDS: [&str; 24] = [
    "0",
    "-1",
    "1e309",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "00",
    "null",
    "true",
    "\"\"",
    "{}",
    "[]",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{feff}",
    "é",
    "🙂",
    " ",
    "\n",
    ",",
    ":",
    "%",
    "/",
];

/// Makes inputs of valid ones.
#[derive(Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static str],
}

impl Mutator {
    /// Mutates these inputs, with these words beside those that every parser has to do with.
    pub fn new(seeds: impl IntoIterator<Item = Vec<u8>>, words: &'static [&'static str]) -> Self {
        Self { seeds: seeds.into_iter().collect(), words }
    }

    /// The next input.
    #[must_use]
    pub fn input(&self, random: &mut Rng) -> Vec<u8> {
        let mut input = self.seed(random).to_vec();
        // Mostly few: an input that is wrong in many places is refused at the first.
        let longest = LONGEST.max(input.len() * 2);
        for _ in 0..1 + random.u32(..8).saturating_sub(3) {
            self.mutate(&mut input, random);
            input.truncate(longest);
        }
        input
    }

    fn seed(&self, random: &mut Rng) -> &[u8] {
        if self.seeds.is_empty() { &[] } else { &self.seeds[random.usize(..self.seeds.len())] }
    }

    fn mutate(&self, input: &mut Vec<u8>, random: &mut Rng) {
        let at = random.usize(..=input.len());
        match random.u32(..12) {
            0 if at < input.len() => input[at] ^= 1 << random.u32(..8),
            1 if at < input.len() => input[at] = random.u8(..),
            2 => input.insert(at, random.u8(..)),
            3 => drop(input.drain(part(input, random))),
            // Repeats a part of the input, sometimes many times.
            4 => {
                let copied = input[part(input, random)].to_vec();
                let times = if random.u32(..16) == 0 { random.usize(1..200) } else { 1 };
                input.splice(at..at, copied.repeat(times));
            }
            5 => drop(input.splice(at..at, self.word(random).bytes())),
            6 => drop(input.splice(part(input, random), self.word(random).bytes())),
            7 => {
                let other = self.seed(random);
                let other = &other[part(other, random)];
                input.splice(at..at, other.iter().copied());
            }
            8 => {
                let other = self.seed(random);
                let other = &other[part(other, random)];
                input.splice(part(input, random), other.iter().copied());
            }
            9 if random.u32(..4) == 0 => input.truncate(at),
            // A number becomes another one.
            10 => {
                let is_digit = |byte: &u8| byte.is_ascii_digit();
                let Some(start) = input.iter().skip(at).position(is_digit).map(|found| at + found) else { return };
                let length = input[start..].iter().take_while(|byte| is_digit(byte)).count();
                input.splice(start..start + length, self.word(random).bytes());
            }
            // A length becomes an extreme one.
            11 if at < input.len() => input[at] = [0, 0x7f, 0x80, 0xff][random.usize(..4)],
            _ => {}
        }
    }

    fn word(&self, random: &mut Rng) -> &'static str {
        let index = random.usize(..WORDS.len() + self.words.len());
        self.words.get(index).copied().unwrap_or_else(|| WORDS[index - self.words.len()])
    }
}

/// Some bytes in a row, mostly few.
fn part(bytes: &[u8], random: &mut Rng) -> Range<usize> {
    let start = random.usize(..=bytes.len());
    let longest = if random.bool() { 16 } else { bytes.len() };
    start..(start + random.usize(..=longest)).min(bytes.len())
}
