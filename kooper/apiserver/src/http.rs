//! The outer walls: what a request asks, what an answer carries.

pub(crate) mod accept;
mod answer;
mod event;
mod query;
mod request;
pub(crate) mod syntax;
mod warnings;

pub(crate) use self::answer::Answer;
pub use self::answer::Body;
pub(crate) use self::event::write_event;
pub(crate) use self::query::Query;
pub(crate) use self::request::Request;
