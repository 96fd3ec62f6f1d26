//! Leader election, with a real API server: which replica calls the handlers, when it stops, and which one takes over.

mod events;
mod instances;
mod mistakes;
mod pages;
mod replica;
mod selected_namespaces;
mod terms;
mod trouble;
