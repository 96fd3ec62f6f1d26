//! Quantities of resources: `500m`, `1.5Gi`, `1e3`.

use std::fmt;

/// An amount in billionths, which is the finest that the API keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

/// Notation of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `Ki`, `Mi`, …
    Binary,
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`
    Exponent,
}

const ONE: i128 = 1_000_000_000;
const MILLI: i128 = 1_000_000;
const DECIMAL: [(i32, &str); 10] =
    [(-9, "n"), (-6, "u"), (-3, "m"), (0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    pub(crate) const ZERO: Self = Self { nanos: 0, format: Format::Decimal };

    /// Reads a quantity; `None` where it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (multiplier, exponent, format) = suffix_of(suffix)?;
        // More digits than any amount has are none that could be added up.
        if whole.len() + fraction.len() > 30 {
            return None;
        }
        let number: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = exponent + 9 - i32::try_from(fraction.len()).ok()?;
        let product = number.checked_mul(multiplier)?;
        let nanos = if scale >= 0 {
            product.checked_mul(10_i128.checked_pow(scale.unsigned_abs())?)?
        } else {
            // The smallest amount is not nothing.
            up(product, 10_i128.checked_pow(scale.unsigned_abs())?)
        };
        let format = if format == Format::Binary && nanos < ONE { Format::Decimal } else { format };
        Some(Self { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// The amount in whole thousandths, rounded up.
    pub(crate) fn to_millis(self) -> Self {
        let millis = up(self.nanos.abs(), MILLI) * MILLI;
        Self { nanos: if self.nanos < 0 { -millis } else { millis }, ..self }
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Returns whether the amount is a whole number.
    pub(crate) fn is_whole(self) -> bool {
        self.nanos % ONE == 0
    }

    /// Returns whether this amount is larger than the other one, regardless of notation.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    pub(crate) fn is_positive(self) -> bool {
        self.nanos > 0
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let format = if self.nanos == 0 { other.format } else { self.format };
        Self { nanos: self.nanos.saturating_add(other.nanos), format }
    }

    /// A whole number.
    pub(crate) fn whole(number: u64) -> Self {
        Self { nanos: i128::from(number) * ONE, format: Format::Decimal }
    }

    /// The amount in thousandths, rounded up.
    pub(crate) fn millis(self) -> i128 {
        self.to_millis().nanos / MILLI
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos), ..self }
    }

    /// The amount as a float.
    pub(crate) fn float(self) -> f64 {
        self.nanos as f64 / ONE as f64
    }

    /// The amount as an integer, if it fits.
    pub(crate) fn integer(self) -> Option<i64> {
        i64::try_from(self.nanos / ONE).ok()
    }

    /// The larger of two.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    /// Returns whether both amounts are equal, regardless of notation.
    pub(crate) fn equals(self, other: Self) -> bool {
        self.nanos == other.nanos
    }
}

fn up(number: i128, unit: i128) -> i128 {
    number / unit + i128::from(number % unit != 0)
}

/// Returns the multiplier of a suffix, as a factor and a power of ten, and the notation.
fn suffix_of(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some((exponent, _)) = DECIMAL.iter().find(|(_, name)| *name == suffix) {
        return Some((1, *exponent, Format::Decimal));
    }
    if let Some(power) = BINARY.iter().position(|name| *name == suffix) {
        return Some((1 << (10 * power), 0, Format::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.strip_prefix('+').unwrap_or(exponent).parse().ok()?;
    (exponent.abs() <= 18).then_some((1, exponent, Format::Exponent))
}

/// The canonical form: no fraction, and the largest suffix for which there is none.
impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return formatter.write_str("0");
        }
        if self.format == Format::Binary && self.nanos.abs() >= 1024 * ONE && self.nanos % ONE == 0 {
            let (mut number, mut power) = (self.nanos / ONE, 0);
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                (number, power) = (number / 1024, power + 1);
            }
            return write!(formatter, "{number}{}", BINARY[power]);
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && exponent < 18 {
            (number, exponent) = (number / 1000, exponent + 3);
        }
        match DECIMAL.iter().find(|(other, _)| *other == exponent) {
            Some((_, suffix)) if self.format != Format::Exponent => write!(formatter, "{number}{suffix}"),
            _ if exponent == 0 => write!(formatter, "{number}"),
            _ => write!(formatter, "{number}e{exponent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_are_written_in_their_canonical_form() {
        for (given, written) in [
            ("0", "0"),
            ("0m", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("100m", "100m"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("1Ki", "1Ki"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000Ki", "1000Ki"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1e3", "1e3"),
            ("1E", "1E"),
            ("12e-1", "1200e-3"),
            ("-2000m", "-2"),
            ("0.0000000001", "1n"),
            ("+5", "5"),
        ] {
            assert_eq!(
                Quantity::parse(given).map(|quantity| quantity.to_string()).as_deref(),
                Some(written),
                "{given}"
            );
        }
        for wrong in ["", "x", "1x", "1KiB", "--1", "1 ", "e3"] {
            assert_eq!(Quantity::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Quantity::parse("1u").map(|quantity| quantity.to_millis().to_string()).as_deref(), Some("1m"));
    }
}
