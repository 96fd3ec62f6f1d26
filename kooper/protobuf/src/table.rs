//! The table: which fields each message has, and how JSON writes them.
//!
//! `table/table.txt` shows its contents; `tests/control-plane/write-tables` writes both files.

use std::slice;

/// The format is described where it is written, in `tests/control-plane/protobuf/table.go`.
static BLOB: &[u8] = include_bytes!("table/table.bin");
/// The strings, each with its length before it. No length is above 127, so that all of it is text.
static STRINGS: &str = match str::from_utf8(section(0)) {
    Ok(strings) => strings,
    Err(_) => panic!("the strings of the table are not UTF-8"),
};
static MESSAGES: &[u8] = section(1);
static FIELDS: &[[u8; FIELD]] = &{
    const BYTES: &[[u8; FIELD]] = section(2).as_chunks().0;
    let mut fields = [[0; FIELD]; BYTES.len()];
    let mut at = 0;
    while at < fields.len() {
        fields[at] = BYTES[at];
        if is_silent(BYTES[at]) {
            fields[at][2] |= SILENT;
        }
        at += 1;
    }
    fields
};
static VERSIONS: &[u8] = section(3);
static KINDS: &[u8] = section(4);

const SECTIONS: usize = 5;
const MESSAGE: usize = 6;
const FIELD: usize = 8;
const ENTRY: usize = 4;

// The properties of a field.
const LIST: u8 = 1;
const MAP: u8 = 2;
const INLINE: u8 = 4;
const OPTIONAL: u8 = 8;
const OMITTED: u8 = 16;
/// It follows from the others.
const SILENT: u8 = 32;

/// Returns `true` if JSON omits a field when the message does.
const fn is_silent(field: [u8; FIELD]) -> bool {
    let single = field[2] & (LIST | MAP | OPTIONAL) == 0;
    let message = field[1] == Type::Message as u8;
    field[2] & OMITTED != 0 && field[2] & INLINE == 0 && !(single && message)
}

const fn section(index: usize) -> &'static [u8] {
    let mut from = SECTIONS * 4;
    let mut at = 0;
    while at < index {
        from += length(at);
        at += 1;
    }
    BLOB.split_at(from).1.split_at(length(index)).0
}

const fn length(index: usize) -> usize {
    let at = index * 4;
    u32::from_le_bytes([BLOB[at], BLOB[at + 1], BLOB[at + 2], BLOB[at + 3]]) as usize
}

const fn number(section: &[u8], at: usize) -> usize {
    u16::from_le_bytes([section[at], section[at + 1]]) as usize
}

/// The bytes of a string.
const fn text(at: usize) -> &'static [u8] {
    let (length, rest) = STRINGS.as_bytes().split_at(at).1.split_at(1);
    rest.split_at(length[0] as usize).0
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// A place in the schema of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// The message of this number.
    Message(usize),
    /// A map, or JSON of any form.
    Free,
    /// A list, or a single value.
    Value,
}

/// The number of the message of a kind.
pub(crate) const fn message_of(api_version: &[u8], kind: &[u8]) -> Option<usize> {
    let mut version = 0;
    while (version + 1) * ENTRY < VERSIONS.len() {
        if is_same(text(number(VERSIONS, version * ENTRY)), api_version) {
            let mut row = number(VERSIONS, version * ENTRY + 2);
            while row < number(VERSIONS, (version + 1) * ENTRY + 2) {
                if is_same(text(number(KINDS, row * ENTRY)), kind) {
                    return Some(number(KINDS, row * ENTRY + 2));
                }
                row += 1;
            }
        }
        version += 1;
    }
    None
}

/// The field of a message, by its name in JSON.
pub(crate) const fn field_of(message: usize, name: &[u8]) -> Option<Place> {
    let mut at = number(MESSAGES, message * MESSAGE + 4);
    while at < number(MESSAGES, (message + 1) * MESSAGE + 4) {
        let field = &FIELDS[at];
        at += 1;
        let of = u16::from_le_bytes([field[6], field[7]]) as usize;
        let is_message = field[1] == Type::Message as u8;
        if field[2] & INLINE != 0 && is_message {
            if let Some(place) = field_of(of, name) {
                return Some(place);
            }
        } else if is_same(text(u16::from_le_bytes([field[4], field[5]]) as usize), name) {
            return Some(match field[2] & (LIST | MAP) {
                0 if is_message => Place::Message(of),
                0 if field[1] >= Type::Json as u8 && field[1] != Type::Strings as u8 => Place::Free,
                MAP => Place::Free,
                _ => Place::Value,
            });
        }
    }
    None
}

fn string(at: usize) -> &'static str {
    let from = at + 1;
    &STRINGS[from..from + usize::from(STRINGS.as_bytes()[at])]
}

/// The row of a group and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version(u16);

impl Version {
    pub(crate) fn of(api_version: &str) -> Option<Self> {
        (0..(VERSIONS.len() / ENTRY - 1) as u16).map(Self).find(|version| version.name() == api_version)
    }

    pub(crate) fn kind(self, name: &str) -> Option<Row> {
        let first = |version: usize| number(VERSIONS, version * ENTRY + 2) as u16;
        let version = usize::from(self.0);
        (first(version)..first(version + 1)).map(Row).find(|kind| kind.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        string(number(VERSIONS, usize::from(self.0) * ENTRY))
    }
}

/// The row of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row(u16);

impl Row {
    pub(crate) fn name(self) -> &'static str {
        string(number(KINDS, usize::from(self.0) * ENTRY))
    }

    pub(crate) fn message(self) -> Message {
        Message(number(KINDS, usize::from(self.0) * ENTRY + 2))
    }
}

/// A message of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message(usize);

impl Message {
    /// Its name in OpenAPI.
    pub(crate) fn name(self) -> String {
        let at = self.0 * MESSAGE;
        format!("{}.{}", string(number(MESSAGES, at)), string(number(MESSAGES, at + 2)))
    }

    /// Its fields in the order of their numbers.
    pub(crate) fn fields(self) -> Fields {
        let at = self.0 * MESSAGE;
        Fields(FIELDS[number(MESSAGES, at + 4)..number(MESSAGES, at + MESSAGE + 4)].iter())
    }

    pub(crate) fn field(self, wanted: u32) -> Option<Field> {
        self.fields().find(|field| field.number() == wanted)
    }
}

/// The fields of a message.
#[derive(Clone, Debug)]
pub(crate) struct Fields(slice::Iter<'static, [u8; FIELD]>);

impl Fields {
    /// The field of this number, which is larger than those of earlier calls.
    #[inline]
    pub(crate) fn at(&mut self, number: u32) -> Option<Field> {
        let fields = self.0.as_slice();
        let at = fields.iter().position(|field| u32::from(field[0]) >= number)?;
        self.0 = fields[at..].iter();
        fields.get(at).filter(|field| u32::from(field[0]) == number).map(Field)
    }

    /// The next field that has at least this number, or that JSON has although the message lacks it.
    #[inline]
    pub(crate) fn seek(&mut self, number: u32) -> Option<Field> {
        let at = self.0.as_slice().iter().position(|field| u32::from(field[0]) >= number || field[2] & SILENT == 0);
        self.0.nth(at?).map(Field)
    }
}

impl Iterator for Fields {
    type Item = Field;

    fn next(&mut self) -> Option<Field> {
        self.0.next().map(Field)
    }
}

impl DoubleEndedIterator for Fields {
    fn next_back(&mut self) -> Option<Field> {
        self.0.next_back().map(Field)
    }
}

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field(&'static [u8; FIELD]);

/// The type of a field's value: of each item of a list, or of each value of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int32,
    Int64,
    Double,
    String,
    Bytes,
    Message,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// A message with JSON in its first field.
    Json,
    /// A message with a list of strings in its first field.
    Strings,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
}

impl Type {
    pub(crate) fn wire_type(self) -> u32 {
        match self {
            Self::Bool | Self::Int32 | Self::Int64 => 0,
            Self::Double => 1,
            _ => 2,
        }
    }
}

const TYPES: [Type; 16] = [
    Type::Bool,
    Type::Int32,
    Type::Int64,
    Type::Double,
    Type::String,
    Type::Bytes,
    Type::Message,
    Type::Time,
    Type::MicroTime,
    Type::Quantity,
    Type::IntOrString,
    Type::Json,
    Type::Strings,
    Type::SchemaOrArray,
    Type::SchemaOrBool,
    Type::SchemaOrStrings,
];

impl Field {
    pub(crate) fn number(self) -> u32 {
        u32::from(self.0[0])
    }

    pub(crate) fn of(self) -> Type {
        TYPES[usize::from(self.0[1])]
    }

    fn has(self, flag: u8) -> bool {
        self.0[2] & flag != 0
    }

    pub(crate) fn is_list(self) -> bool {
        self.has(LIST)
    }

    pub(crate) fn is_map(self) -> bool {
        self.has(MAP)
    }

    /// Returns `true` if the fields of its message are written into the surrounding object.
    pub(crate) fn is_inline(self) -> bool {
        self.has(INLINE)
    }

    /// Returns `true` if the field may be absent. Other single values are always encoded.
    pub(crate) fn is_optional(self) -> bool {
        self.has(OPTIONAL)
    }

    /// Returns `true` if JSON omits the field when it is empty.
    pub(crate) fn is_omitted(self) -> bool {
        self.has(OMITTED)
    }

    /// Returns `true` if JSON omits the field when the message does.
    pub(crate) fn is_silent(self) -> bool {
        self.has(SILENT)
    }

    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        string(usize::from(u16::from_le_bytes([self.0[4], self.0[5]])))
    }

    /// The message of its value, for the types that have one.
    pub(crate) fn message(self) -> Message {
        Message(usize::from(u16::from_le_bytes([self.0[6], self.0[7]])))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::{ENTRY, KINDS, MESSAGE, MESSAGES, Message, Type, VERSIONS, Version, number, string};

    fn short(name: &str) -> &str {
        name.strip_prefix("io.k8s.").unwrap_or(name)
    }

    fn is_message(of: Type) -> bool {
        matches!(of, Type::Message | Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings)
    }

    #[test]
    fn the_blob_is_what_the_text_shows() {
        let mut text = String::new();
        for version in 0..VERSIONS.len() / ENTRY - 1 {
            let at = version * ENTRY;
            writeln!(text, "{}", string(number(VERSIONS, at))).unwrap();
            for kind in number(VERSIONS, at + 2)..number(VERSIONS, at + ENTRY + 2) {
                let name = Message(number(KINDS, kind * ENTRY + 2)).name();
                writeln!(text, "  {} {}", string(number(KINDS, kind * ENTRY)), short(&name)).unwrap();
            }
        }
        text.push('\n');
        for at in 0..MESSAGES.len() / MESSAGE - 1 {
            let message = Message(at);
            let name = message.name();
            writeln!(text, "{}", short(&name)).unwrap();
            let package = short(&name).rsplit_once('.').map_or("", |(package, _)| package);
            for field in message.fields() {
                let json = if field.name().is_empty() { "-" } else { field.name() };
                let mut line = format!("  {} {json} {}", field.number(), format!("{:?}", field.of()).to_lowercase());
                if is_message(field.of()) {
                    let of = field.message().name();
                    let of = short(&of);
                    let local = of.strip_prefix(package).and_then(|rest| rest.strip_prefix('.')).unwrap_or(of);
                    write!(line, "({local})").unwrap();
                }
                for (set, word) in [
                    (field.is_list(), "list"),
                    (field.is_map(), "map"),
                    (field.is_inline(), "inline"),
                    (field.is_optional(), "pointer"),
                    (field.is_omitted(), "omitted"),
                ] {
                    if set {
                        write!(line, " {word}").unwrap();
                    }
                }
                writeln!(text, "{line}").unwrap();
            }
        }
        let golden: String =
            include_str!("table/table.txt").split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
        for (at, (found, expected)) in text.lines().zip(golden.lines()).enumerate() {
            assert_eq!(found, expected, "line {at}");
        }
        assert_eq!(text.len(), golden.len());
    }

    #[test]
    fn fields_ascend_by_number() {
        for at in 0..MESSAGES.len() / MESSAGE - 1 {
            let numbers: Vec<_> = Message(at).fields().map(super::Field::number).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{}", Message(at).name());
        }
    }

    #[test]
    fn only_kinds_of_the_version_are_found() {
        let is_known = |api_version, kind| Version::of(api_version).is_some_and(|version| version.kind(kind).is_some());
        assert!(is_known("apps/v1", "Deployment"));
        assert!(is_known("apps/v1", "DeploymentList"));
        assert!(is_known("v1", "Status"));
        assert!(is_known("meta.k8s.io/v1", "PartialObjectMetadataList"));
        assert!(!is_known("v1", "Deployment"));
        assert!(!is_known("example.com/v1", "Status"));
        assert!(!is_known("", ""));
    }
}
