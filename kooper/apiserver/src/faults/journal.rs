//! The last requests of a server.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;

use super::RequestAttributes;

/// Number of requests that are kept.
const KEPT: usize = 100;

/// The last requests of a server, and how each was answered.
#[derive(Debug, Default)]
pub(super) struct Journal(Mutex<VecDeque<Answered>>);

/// A request and how it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    request: RequestAttributes,
    status: Option<u16>,
    fault: bool,
}

impl Answered {
    /// The verb, such as `patch`.
    #[must_use]
    pub fn verb(&self) -> &str {
        &self.request.verb
    }

    /// The resource with its group and subresource, such as `shops.example.com/status`; otherwise the path.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.request.resource
    }

    /// The object: `namespace/name`, or its name, or its namespace and `/`.
    #[must_use]
    pub fn object(&self) -> String {
        self.request.object()
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.request.user
    }

    /// The code of the answer; `None` if the connection was reset instead.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns whether a fault was injected into the request.
    #[must_use]
    pub fn met_fault(&self) -> bool {
        self.fault
    }
}

/// `patch shops.example.com/status default/a by admin: 409`.
impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}: ", self.request, self.request.user)?;
        match self.status {
            Some(status) => write!(f, "{status}")?,
            None => f.write_str("connection reset")?,
        }
        f.write_str(if self.fault { ", injected" } else { "" })
    }
}

impl Journal {
    pub(super) fn add(&self, request: &RequestAttributes, status: Option<u16>, fault: bool) {
        let mut last = self.0.lock();
        if last.len() >= KEPT {
            last.pop_front();
        }
        last.push_back(Answered { request: request.clone(), status, fault });
    }

    pub(super) fn requests(&self) -> Vec<Answered> {
        self.0.lock().iter().cloned().collect()
    }
}
