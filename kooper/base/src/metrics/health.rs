//! Checks of parts of the process.

/// A part of the process whose health is checked.
pub trait Probe: Send + Sync {
    /// The name of the check. It is visible to everyone, so it contains no internal details.
    fn name(&self) -> String;

    /// Ready, possibly with a remark, or the reason why not.
    fn ready(&self) -> Result<Option<String>, String>;

    /// The reason if only a restart of the process helps.
    fn alive(&self) -> Result<(), String> {
        Ok(())
    }
}
