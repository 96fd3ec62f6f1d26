//! Lists: selected objects of one kind at one version, whole or in pages.

use std::num::{IntErrorKind, ParseIntError};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::Call;
use super::form::{self, Form};
use super::served;
use crate::faults::View;
use crate::http::accept::Encoding;
use crate::http::{Answer, Query};
use crate::protobuf::{self, Kind};
use crate::select::{Selection, Selectors};
use crate::status::{Cause, StatusError};
use crate::store::{Object, Snapshot};

/// Maximum time that a list waits for a version that does not exist yet.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The version of the newest state in a continue token, as on the real server.
const NEWEST: &str = "-1";

pub(super) async fn list(call: &Call<'_>) -> Result<Answer, StatusError> {
    let selection = selection(call, false)?;
    let query = &call.request.query;
    let mut page = Page::parse(query)?;
    // One object is read as it is now, unless the client insists, and has no second page.
    let placed = call.target.namespace.is_some() || !call.kind.namespaced;
    if selection.names_one() && placed && page.after.is_none() {
        page.exact &= query.get("resourceVersionMatch").is_some();
        page.limit = None;
    }
    let snapshot = snapshot(call, &page).await?;
    let prefix = call.target.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let from = page.after.as_ref().map_or_else(|| prefix.clone(), |after| format!("{after}\0"));

    // One more than asked for shows whether there is a next page.
    let mut chosen: Vec<(Arc<str>, Arc<Object>)> = Vec::new();
    let mut entries = snapshot.tree.range(&from).take_while(|(key, _)| key.starts_with(&prefix));
    let mut more = false;
    for (key, object) in entries.by_ref() {
        // The next page finds out whether any of the remaining objects are selected.
        if page.limit.is_some_and(|limit| chosen.len() >= limit) {
            more = true;
            break;
        }
        if !selection.matches(key, object) {
            continue;
        }
        chosen.push((Arc::clone(key), Arc::clone(object)));
    }
    let mut metadata = json!({"resourceVersion": snapshot.version.to_string()});
    if call.kind.custom.is_some() && call.media.form == Form::Whole {
        metadata["continue"] = json!("");
    }
    if more && let Some((last, _)) = chosen.last() {
        metadata["continue"] = json!(token(Some(snapshot.version), last));
        if selection.is_empty() {
            metadata["remainingItemCount"] = json!(entries.count() + 1);
        }
    }
    answer(call, &metadata, chosen.into_iter().map(|(_, object)| object)).await
}

/// Answers a list in the form and the encoding that the client accepts.
pub(super) async fn answer(
    call: &Call<'_>,
    metadata: &Value,
    objects: impl Iterator<Item = Arc<Object>> + Send + 'static,
) -> Result<Answer, StatusError> {
    let form = call.media.form;
    if form == Form::Whole && call.media.encoding == Encoding::Protobuf {
        return encoded(call, metadata, objects).await;
    }
    if form == Form::Whole {
        return Ok(whole(call, metadata, objects));
    }
    let items: Vec<_> = objects.map(|object| served(&call.kind, &object)).collect();
    Ok(Answer::json(StatusCode::OK, &form.list(&call.kind, metadata, &items)?))
}

/// The stored bytes one after the other: no object is decoded or copied.
fn whole(call: &Call<'_>, metadata: &Value, objects: impl Iterator<Item = Arc<Object>> + Send + 'static) -> Answer {
    let kind = Arc::clone(&call.kind);
    let (list_kind, version) = (&kind.list_kind, kind.api_version());
    let head = format!("{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":[");
    let open: &'static [u8] = if kind.custom.is_some() { b"" } else { b"{" };
    let items = objects.enumerate().flat_map(move |(index, object)| {
        let comma: &'static [u8] = if index == 0 { b"" } else { b"," };
        let separator = [comma, open].concat();
        [Bytes::from(separator), form::item(&kind, &object)]
    });
    let frames = std::iter::once(Bytes::from(head)).chain(items).chain(std::iter::once(Bytes::from_static(b"]}")));
    Answer::frames(CoalescedFrames { frames, pending: None })
}

/// The objects in protobuf, which is of a known length: each is encoded before the first one is sent.
async fn encoded(
    call: &Call<'_>,
    metadata: &Value,
    objects: impl Iterator<Item = Arc<Object>>,
) -> Result<Answer, StatusError> {
    /// After so many objects it is another request's turn.
    const TURN: usize = 64;
    let kind = Kind::of(&call.kind.api_version(), &call.kind.list_kind);
    let kind = kind.ok_or_else(|| StatusError::not_implemented(format!("{} in protobuf", call.kind.list_kind)))?;
    let mut list = protobuf::List::new(kind);
    for (index, object) in objects.enumerate() {
        list.push(&served(&call.kind, &object)).map_err(|error| protobuf::refusal(&error))?;
        if index % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    let parts = list.finish(metadata).map_err(|error| protobuf::refusal(&error))?;
    let frames = CoalescedFrames { frames: parts.map(Bytes::from), pending: None };
    Ok(Answer::frames(frames).with_content_type(protobuf::CONTENT_TYPE))
}

/// Small frames are put together, so that each costs less than one system call.
struct CoalescedFrames<I> {
    frames: I,
    pending: Option<Bytes>,
}

impl<I: Iterator<Item = Bytes>> Iterator for CoalescedFrames<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        const FRAME: usize = 32 << 10;
        let first = self.pending.take().or_else(|| self.frames.next())?;
        if first.len() >= FRAME {
            return Some(first);
        }
        let mut packed = Vec::with_capacity(FRAME);
        packed.extend_from_slice(&first);
        for frame in self.frames.by_ref() {
            if packed.len() + frame.len() > FRAME {
                self.pending = Some(frame);
                break;
            }
            packed.extend_from_slice(&frame);
        }
        Some(packed.into())
    }
}

async fn snapshot(call: &Call<'_>, page: &Page) -> Result<Snapshot, StatusError> {
    let table = &call.kind.table;
    let Some(version) = page.version else { return Ok(table.snapshot()) };
    if !page.exact {
        return cached(call, &mut call.view(), version).await;
    }
    if version > 0 {
        wait_for(call, version).await?;
    }
    table.snapshot_at(version).map_err(|_| match &page.after {
        Some(after) => StatusError::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        )
        .with_continue(token(None, after)),
        None => StatusError::expired("The resourceVersion for the provided list is too old."),
    })
}

/// A state that is not older than a version, as the watch cache has it.
pub(super) async fn cached(call: &Call<'_>, view: &mut View, version: u64) -> Result<Snapshot, StatusError> {
    let table = &call.kind.table;
    if version > 0 {
        wait_for(call, version).await?;
        if tokio::time::timeout(TIMEOUT, view.shows(version)).await.is_err() {
            return Err(too_large(version, view.frozen().unwrap_or_default()));
        }
    }
    let frozen = view.frozen().and_then(|frozen| table.snapshot_at(frozen).ok());
    Ok(frozen.unwrap_or_else(|| table.snapshot()))
}

/// Waits a little for a version, as the real server does.
pub(super) async fn wait_for(call: &Call<'_>, version: u64) -> Result<(), StatusError> {
    let store = &call.cluster.store;
    if tokio::time::timeout(TIMEOUT, store.reach(version)).await.is_ok() {
        return Ok(());
    }
    Err(too_large(version, store.version()))
}

/// Waits for the version that a read of one object asks for.
pub(super) async fn wait_for_named(call: &Call<'_>) -> Result<(), StatusError> {
    let Some(text) = call.request.query.get("resourceVersion") else { return Ok(()) };
    match text.parse() {
        Ok(version) => wait_for(call, version).await,
        Err(_) => Err(bad_version(text)),
    }
}

/// The refusal of a version outside of lists.
pub(super) fn bad_version(text: &str) -> StatusError {
    let message =
        format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
    StatusError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
}

fn too_large(version: u64, current: u64) -> StatusError {
    let message = format!("Timeout: Too large resource version: {version}, current: {current}");
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    StatusError::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_cause(&cause).with_retry_after(1)
}

/// Which part of which version of a list is asked for.
struct Page {
    limit: Option<usize>,
    /// The last name of the page before.
    after: Option<String>,
    version: Option<u64>,
    exact: bool,
}

impl Page {
    fn parse(query: &Query) -> Result<Self, StatusError> {
        let limit = number(query, "limit")?
            .filter(|limit| *limit > 0)
            .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let given = query.get("resourceVersion");
        if let Some(text) = query.get("continue") {
            let (version, after) = read_token(text)?;
            if given.is_some_and(|version| version != "0") {
                return Err(StatusError::bad_request("specifying resource version is not allowed when using continue"));
            }
            return Ok(Self { limit, after: Some(after), version, exact: true });
        }
        let version = given.map(parse_version).transpose()?;
        let exact = match query.get("resourceVersionMatch") {
            Some(matching) => matching == "Exact",
            // A limit asks for that version, as lists did before there was a match.
            None => limit.is_some() && version.is_some_and(|version| version > 0),
        };
        // The newest state that is in memory is the answer to any version.
        let limit = if version == Some(0) { None } else { limit };
        Ok(Self { limit, after: None, version, exact })
    }
}

/// Which objects a list, a watch or a DELETE of a collection is about. Of several mistakes in its options, the real server
/// reports what cannot be parsed before what contradicts itself, and that before fields that cannot be selected.
pub(super) fn selection(call: &Call<'_>, watching: bool) -> Result<Selection, StatusError> {
    let query = &call.request.query;
    for option in ["timeoutSeconds", "limit"] {
        number(query, option)?;
    }
    let selectors = Selectors::parse(query)?;
    check_matching(query, watching)?;
    selectors.of(&call.kind, call.target.name.as_deref())
}

/// Refuses combinations of the list options that contradict each other.
fn check_matching(query: &Query, watching: bool) -> Result<(), StatusError> {
    let version = query.get("resourceVersion");
    let matching = query.get("resourceVersionMatch");
    let initial = query.get("sendInitialEvents");
    let continued = query.get("continue").is_some();
    let field = "resourceVersionMatch";
    // A watch of the state and what follows is one with initial events.
    let from_now = watching && initial.is_none() && matches!(version, None | Some("" | "0"));
    let known: &[&str] = if watching { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
    let mut causes = Vec::new();
    let mut forbid = |field: &str, why: &str| causes.push(Cause::forbidden(field, why));
    if watching && initial.is_some() && matching != Some("NotOlderThan") {
        forbid(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    }
    if watching && initial.is_none() && matching.is_some() {
        forbid(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    }
    if !watching && version.is_none() && matching.is_some() {
        forbid(field, "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if continued && (from_now || matching.is_some()) {
        forbid(field, "resourceVersionMatch is forbidden when continue is provided");
    }
    if !watching && matching == Some("Exact") && version == Some("0") {
        forbid(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
    if !watching && initial.is_some() {
        forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
    }
    if let Some(matching) = matching.filter(|matching| !known.contains(matching)) {
        causes.push(Cause::not_supported(field, &format!("{matching:?}"), known));
    }
    if causes.is_empty() { Ok(()) } else { Err(StatusError::invalid("meta.k8s.io", "ListOptions", "", &causes)) }
}

fn parse_version(text: &str) -> Result<u64, StatusError> {
    text.parse().map_err(|_| {
        StatusError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: \
             invalid syntax"
        ))
    })
}

/// A whole number of the query.
pub(super) fn number(query: &Query, name: &str) -> Result<Option<i64>, StatusError> {
    let parse = |text: &str| {
        text.parse().map_err(|error: ParseIntError| {
            let why = match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            StatusError::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
        })
    };
    query.get(name).map(parse).transpose()
}

/// Where the next page begins, for clients to give back unread. Without a version it is one of the newest state.
pub(super) fn token(version: Option<u64>, last: &str) -> String {
    use std::fmt::Write as _;
    let version = version.map_or_else(|| NEWEST.to_owned(), |version| version.to_string());
    format!("{version}/{last}").bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn read_token(text: &str) -> Result<(Option<u64>, String), StatusError> {
    let refused = || {
        StatusError::bad_request(
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        )
    };
    let digits: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    let text = String::from_utf8(digits.ok_or_else(refused)?).map_err(|_| refused())?;
    let (version, last) = text.split_once('/').ok_or_else(refused)?;
    let version = if version == NEWEST { None } else { Some(version.parse().map_err(|_| refused())?) };
    Ok((version, last.to_owned()))
}
