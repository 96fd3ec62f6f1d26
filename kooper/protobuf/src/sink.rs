//! Where a decoder writes JSON to.

mod json;

pub use self::json::JsonSink;

/// Receives JSON piece by piece, in the order in which it is written.
///
/// Each value of an object follows its key. The calls are balanced: each object
/// and list that begins ends, unless decoding fails.
pub trait Sink {
    /// An object begins.
    fn begin_object(&mut self);
    /// The key of the value that follows.
    fn key(&mut self, key: &str);
    /// The innermost object ends.
    fn end_object(&mut self);
    /// A list begins.
    fn begin_list(&mut self);
    /// The innermost list ends.
    fn end_list(&mut self);
    /// `null`.
    fn null(&mut self);
    /// `true` or `false`.
    fn bool(&mut self, value: bool);
    /// A whole number.
    fn int(&mut self, value: i64);
    /// A number, which is finite.
    fn float(&mut self, value: f64);
    /// A string.
    fn string(&mut self, value: &str);
    /// A value that is JSON already.
    ///
    /// # Errors
    ///
    /// If it is not.
    fn json(&mut self, value: &[u8]) -> Result<(), serde_json::Error>;
}
