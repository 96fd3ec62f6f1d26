//! The driver's commands.

use std::io;
use std::process;
use std::sync::Arc;
use std::thread;

use crate::{Reply, Tally};

/// Obeys the commands on standard input, on a thread of its own that sleeps between them.
///
/// `quit` and the end of the input end the process.
pub fn serve(tally: Arc<Tally>) {
    thread::spawn(move || {
        for line in io::stdin().lines() {
            match line.as_deref().map(str::trim) {
                Ok("report") => Reply::Report(tally.report()).print(),
                Ok("quit") | Err(_) => break,
                Ok(command) => match command.strip_prefix("reset ").map(str::parse) {
                    Some(Ok(awaited)) => {
                        tally.reset(awaited);
                        Reply::Reset.print();
                    }
                    _ => eprintln!("no such command: {command}"),
                },
            }
        }
        process::exit(0);
    });
}
