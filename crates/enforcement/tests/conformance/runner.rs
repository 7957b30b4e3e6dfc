//! Runs cases one after the other and says what became of each, as the usual harness does.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a check.
pub enum Outcome {
    /// It holds; with what was seen.
    Holds(String),
    /// The back end declares that it does not do this.
    Declared(&'static str),
    /// The host cannot run it, for this reason.
    Skipped(String),
}

/// Something to check.
pub struct Case<'a> {
    /// The name, to choose by.
    pub name: String,
    /// Checks it; an error says what does not hold.
    pub run: Box<dyn Fn() -> Result<Outcome, String> + 'a>,
}

/// Runs the cases that `arguments` choose; whether all held.
pub fn run(arguments: &[String], cases: &[Case<'_>]) -> bool {
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let listing = arguments.iter().any(|argument| argument == "--list");
    let ignored = arguments.iter().any(|argument| argument == "--ignored");
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let chosen = cases.iter().filter(|case| {
        let fits = |filter: &&String| match exact {
            true => case.name == **filter,
            false => case.name.contains(filter.as_str()),
        };
        !ignored && (filters.is_empty() || filters.iter().any(fits))
    });
    let (mut held, mut failed) = (0, Vec::new());
    for case in chosen {
        if listing {
            println!("{}: test", case.name);
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)()));
        let outcome = outcome.unwrap_or_else(|_| Err("it panicked, see above".into()));
        match outcome {
            Ok(Outcome::Holds(seen)) => {
                held += 1;
                println!("test {} ... ok ({seen})", case.name);
            }
            Ok(Outcome::Declared(what)) => {
                held += 1;
                println!("test {} ... ok (declared: {what})", case.name);
            }
            Ok(Outcome::Skipped(why)) => eprintln!("SKIP {}: {why}", case.name),
            Err(why) => {
                println!("test {} ... FAILED: {why}", case.name);
                failed.push(&case.name);
            }
        }
    }
    if !listing {
        println!(
            "\ntest result: {held} held, {} failed {failed:?}",
            failed.len()
        );
    }
    failed.is_empty()
}
