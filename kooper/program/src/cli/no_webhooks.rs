//! A program without the feature `webhooks` has none.

use kooper_access::Controller;
use kooper_runtime::Result;
use kube::Client;
use tokio::runtime::Runtime;

use super::connect::Connection;
use super::invocation::Invocation;
use super::verdict::Verdict;
use crate::rbac::Place;

/// The server that a program without webhooks does not have. Clippy rejects `default()` of a struct without braces.
#[derive(Default)]
pub(super) struct WebhookServer {}

#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn has_any(_: &Invocation<'_>) -> Result<bool> {
    Ok(false)
}

#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn controllers(_: &Invocation<'_>, _: &Place) -> Result<Vec<Controller>> {
    Ok(Vec::new())
}

#[expect(clippy::unnecessary_wraps, reason = "with the feature it can fail")]
pub(super) fn paths(_: &Invocation<'_>) -> Result<Vec<String>> {
    Ok(Vec::new())
}

pub(super) async fn inspect(_: &Invocation<'_>, _: &Place, _: &Client) -> Result<Vec<(Verdict, String)>> {
    Ok(Vec::new())
}

pub(super) async fn unregister(_: &Invocation<'_>, _: &Place, _: &Client, _: impl Fn(&str, String)) -> Result<()> {
    Ok(())
}

pub(super) async fn delete_secret(_: &Invocation<'_>, _: &Place, _: &Client, _: impl Fn(&str, String)) -> Result<()> {
    Ok(())
}

#[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "with the feature they do something")]
impl WebhookServer {
    #[cfg(feature = "apiserver")]
    pub(super) fn on_loopback(_: &Invocation<'_>, _: &str) -> Result<(Self, Vec<Controller>)> {
        Ok((Self {}, Vec::new()))
    }

    pub(super) fn for_cluster(_: &Invocation<'_>, _: &Connection, _: String) -> Result<(Self, Vec<Controller>)> {
        Ok((Self {}, Vec::new()))
    }

    pub(super) fn connect(&mut self, _: &Runtime, _: &Client) {}

    pub(super) async fn end(self, _: Option<&Client>) {}
}
