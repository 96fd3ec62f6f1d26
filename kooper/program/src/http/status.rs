//! The status page: what the controllers do now, for people.
//!
//! It is HTML without a build step, and shows keys, errors and counts, never the
//! content of an object.

use std::fmt::{self, Write};

use kooper_runtime::internal::call::worker::Running;
use kooper_runtime::internal::controller::view::WatchView;

mod escaped;
mod keys;
mod lines;
mod model;
mod read;
mod slots;
mod waiting;
mod webhooks;

use escaped::Escaped;
pub(super) use model::Query;
use model::{ControllerState, KeyState, Role, Rows, shown};
pub(super) use read::states;
use webhooks::WebhookRow;

/// The most rows that a page has.
pub(super) const MOST_ROWS: usize = 1_000;

/// The most lines about the readiness of the process.
const MOST_REMARKS: usize = 20;

/// Nothing but its own style and script is loaded, and no other page may frame it.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                                 form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(super) const STYLE: &str = include_str!("status/status.css");
pub(super) const SCRIPT: &str = include_str!("status/status.js");

/// The search of a query string: the value of `q`.
pub(super) fn search(query: Option<&str>) -> String {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let value = pairs.find_map(|(name, value)| (name == "q").then_some(value));
    value.unwrap_or_default().trim().to_owned()
}

/// The page. `ready` is the answer of `/readyz`.
pub(super) fn page(title: &str, search: &str, ready: &Result<String, String>, states: &[ControllerState]) -> String {
    let mut html = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut html, title, search, ready, states);
    html
}

fn write_page(
    html: &mut String,
    title: &str,
    search: &str,
    ready: &Result<String, String>,
    states: &[ControllerState],
) -> fmt::Result {
    let (title, value) = (Escaped(title), Escaped(search));
    // The addresses are relative: the page may be behind `kubectl proxy`.
    write!(
        html,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}: status</title>\n\
         <link rel=\"stylesheet\" href=\"status.css\">\n<script src=\"status.js\" defer></script>\n\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n</head>\n<body>\n\
         <header><h1>{title}</h1><form action=\"status\"><input type=\"search\" name=\"q\" value=\"{value}\" \
         placeholder=\"namespace/name\" aria-label=\"Search keys\"></form></header>\n<main>\n"
    )?;
    match ready {
        Ok(remarks) => {
            html.push_str("<p><b class=\"good\">ready</b></p>\n");
            listed(html, remarks.strip_prefix("ok\n").unwrap_or(remarks))?;
        }
        Err(reasons) => {
            html.push_str("<p><b class=\"bad\">not ready</b></p>\n");
            listed(html, reasons)?;
        }
    }
    if states.is_empty() {
        html.push_str("<p>There is no controller yet.</p>\n");
    }
    for state in states {
        controller(html, state, search)?;
    }
    html.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}

fn listed(html: &mut String, text: &str) -> fmt::Result {
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    html.push_str("<ul>\n");
    for line in lines.by_ref().take(MOST_REMARKS) {
        writeln!(html, "<li>{}</li>", Escaped(line))?;
    }
    more(html, "li", lines.count(), "; /readyz has all of them")?;
    html.push_str("</ul>\n");
    Ok(())
}

/// The number of rows that are left out, if any.
fn more(html: &mut String, element: &str, more: usize, hint: &str) -> fmt::Result {
    match more {
        0 => Ok(()),
        more => writeln!(html, "<{element}>and {} more{hint}</{element}>", grouped(more)),
    }
}

fn controller(html: &mut String, state: &ControllerState, search: &str) -> fmt::Result {
    write!(html, "<section>\n<h2>{} <small>{}", Escaped(&state.name), Escaped(&state.resource))?;
    match &state.role {
        Role::Alone => html.push_str("</small></h2>\n"),
        Role::Leader(identity) => writeln!(
            html,
            " · <span class=\"good\">leader</span></small></h2>\n<p>It is the leader as {}.</p>",
            Escaped(identity)
        )?,
        Role::Standby(why) => writeln!(html, " · standby</small></h2>\n<p>{}</p>", Escaped(why))?,
        Role::Shards { owned, count, identity } => writeln!(
            html,
            " · <span class=\"good\">{owned} of {count} shards</span></small></h2>\n<p>It works on them as {}.</p>",
            Escaped(identity)
        )?,
        Role::NoShards => html.push_str(
            " · no shards</small></h2>\n<p>It handles nothing until it owns a shard: other replicas own them, or it has \
             just started.</p>\n",
        ),
        Role::Ended => {
            html.push_str(" · <span class=\"bad\">has ended</span></small></h2>\n</section>\n");
            return Ok(());
        }
    }
    if let Some(problem) = &state.problem {
        writeln!(html, "<p class=\"bad\">{}</p>", Escaped(problem))?;
    }
    let queue = state.queue;
    let [events, retries, background] = queue.lanes.map(grouped);
    let busy = state.calls.shown.len() + state.calls.more;
    let of_search = if search.is_empty() { "" } else { " that match the search" };
    writeln!(
        html,
        "<dl>\n<dt>running calls{of_search}</dt><dd>{}</dd>\n<dt>workers</dt><dd>{}</dd>\n\
         <dt>waiting for a worker</dt><dd>{events} events, {retries} retries and requeues, {background} resyncs and \
         first lists</dd>\n<dt>waiting for a time</dt><dd>{} retries, {} requeues and delayed changes</dd>\n\
         <dt>known keys</dt><dd>{}</dd>\n</dl>",
        grouped(busy),
        grouped(state.workers),
        grouped(queue.retries),
        grouped(queue.delayed),
        grouped(queue.known)
    )?;
    lines::write(html, &state.samples)?;
    table(html, "Webhooks", &["webhook", "purpose", "registered"], &state.webhooks, "", webhook)?;
    for remark in &state.webhook_remarks {
        writeln!(html, "<p>{}</p>", Escaped(remark))?;
    }
    if let Some(slots) = &state.slots {
        slots.write(html)?;
    }
    table(html, "Watches", &["resource", "objects", "last heard", "state"], &state.watches, "", watch)?;
    table(html, "Running calls", &["key", "attempt", "for"], &state.calls, "", call)?;
    let caption = if search.is_empty() { "Keys" } else { "Keys that contain the search" };
    let hint = ": search for a part of their key";
    table(html, caption, &["key", "now", "reasons of the next call", "last error"], &state.keys, hint, key)?;
    if let Some(unknown) = &state.unknown {
        writeln!(html, "<p>{}</p>", Escaped(unknown))?;
    } else if state.keys.shown.is_empty() && state.keys.more == 0 && !search.is_empty() {
        html.push_str("<p>No key in the queue contains the search.</p>\n");
    }
    html.push_str("</section>\n");
    Ok(())
}

fn table<T>(
    html: &mut String,
    caption: &str,
    columns: &[&str],
    rows: &Rows<T>,
    hint: &str,
    write_row: impl Fn(&mut String, &T) -> fmt::Result,
) -> fmt::Result {
    if rows.shown.is_empty() {
        return match rows.more {
            0 => Ok(()),
            more => writeln!(html, "<p>{caption}: {}{hint}</p>", grouped(more)),
        };
    }
    write!(html, "<table>\n<caption>{caption}</caption>\n<thead><tr>")?;
    for column in columns {
        write!(html, "<th scope=\"col\">{column}</th>")?;
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows.shown {
        html.push_str("<tr>");
        write_row(html, row)?;
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table>\n");
    more(html, "p", rows.more, hint)
}

fn watch(html: &mut String, watch: &WatchView) -> fmt::Result {
    let WatchView { place, objects, heard, problem } = watch;
    write!(html, "<td>{}</td><td>{}</td><td>{} ago</td>", Escaped(place), grouped(*objects), shown(*heard))?;
    match problem {
        Some(problem) => write!(html, "<td class=\"bad\">{}</td>", Escaped(problem)),
        None => write!(html, "<td>synced</td>"),
    }
}

fn webhook(html: &mut String, webhook: &WebhookRow) -> fmt::Result {
    let WebhookRow { name, purpose, registered, is_bad } = webhook;
    let class = if *is_bad { "bad" } else { "" };
    write!(html, "<td>{}</td><td>{}</td><td class=\"{class}\">{registered}</td>", Escaped(name), Escaped(purpose))
}

fn call(html: &mut String, call: &Running) -> fmt::Result {
    write!(html, "<td>{}</td><td>{}</td><td>{}</td>", Escaped(call.key.as_str()), call.attempt, shown(call.age))
}

fn key(html: &mut String, state: &KeyState) -> fmt::Result {
    let (key, why, reasons) = (Escaped(&state.key), Escaped(&state.why), Escaped(&state.reasons));
    write!(html, "<td>{key}</td><td>{why}</td><td>{reasons}</td>")?;
    match &state.error {
        Some((error, 1)) => write!(html, "<td class=\"bad\">{}</td>", Escaped(error)),
        Some((error, calls)) => write!(html, "<td class=\"bad\">{} ({calls} failed calls)</td>", Escaped(error)),
        None => write!(html, "<td></td>"),
    }
}

/// A number with spaces between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
