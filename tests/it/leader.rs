//! Leader election, on a real API server: who works, when it stops, and who works then.

mod instances;
mod mistakes;
mod replica;
mod tells;
mod terms;
mod trouble;
