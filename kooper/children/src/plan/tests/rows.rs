//! The rows of the table of events, one test each.
