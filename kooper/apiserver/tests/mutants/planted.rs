
/// Returns whether the fault is planted: the variable `KOOPER_FAULT` names it.
pub(crate) fn planted(fault: &str) -> bool {
    static PLANTED: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("KOOPER_FAULT").unwrap_or_default());
    *PLANTED == fault
}
