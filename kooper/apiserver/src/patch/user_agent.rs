//! The manager of a write.

use super::format::is_printable;

/// Maximum length of a manager's name in bytes.
const MAX_LENGTH: usize = 128;

/// The manager that a request names, or else the first part of its
/// User-Agent (`managerOrUserAgent` of the real server).
#[must_use]
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let program = user_agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for char in program.chars().filter(|char| is_printable(*char)) {
        if name.len() + char.len_utf8() > MAX_LENGTH {
            break;
        }
        name.push(char);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::manager_name;

    #[test]
    fn a_request_without_a_manager_has_that_of_its_program() {
        assert_eq!(manager_name("mine", "curl/8"), "mine");
        assert_eq!(manager_name("", "kube-controller-manager/v1.36 (linux) kubernetes/abc"), "kube-controller-manager");
        assert_eq!(manager_name("", "a\u{7}b"), "ab");
        assert_eq!(manager_name("", ""), "");
        assert_eq!(manager_name("", &"é".repeat(100)).len(), 128);
    }
}
