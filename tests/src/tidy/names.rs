//! Units in names: a bare number that is a time says its unit.
//!
//! A field, argument or constant of an integer or float type whose name ends in a word for a time
//! is either of a type that knows its unit (`Duration`, `Instant`, `Rate`), or its name ends in
//! the unit, such as `_ns`. Words for statistics behind the time (`latency_p99`) do not help.
//! Layouts that the kernel dictates (`#[repr(C)]`) keep the kernel's names.

use syn::visit::Visit;

use super::Finding;

/// Words for a time.
const TIMES: [&str; 21] = [
    "age",
    "bound",
    "budget",
    "deadline",
    "delay",
    "duration",
    "elapsed",
    "gap",
    "interval",
    "jitter",
    "lateness",
    "latency",
    "overrun",
    "period",
    "replenishment",
    "tardiness",
    "time",
    "timeout",
    "timestamp",
    "uptime",
    "wait",
];
/// Words that may follow a time without making it something else.
const STATISTICS: [&str; 7] = ["average", "max", "mean", "median", "min", "sum", "total"];
/// Types of numbers that know no unit.
const NUMBERS: [&str; 12] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "i128", "isize", "f32", "f64",
];

/// Names that break the rule for a reason: file, name, reason. The shorter the better.
pub const ALLOWED: [(&str, &str, &str); 2] = [
    (
        "crates/linux/src/perf.rs",
        "PERF_SAMPLE_TIME",
        "the kernel's name of a flag",
    ),
    (
        "crates/linux/src/scheduling.rs",
        "SCHED_DEADLINE",
        "the kernel's name of a policy",
    ),
];

/// Finds times without a unit, and budgets called `runtime` outside the crates that speak to the
/// kernel in its own words.
pub fn unitless_times(path: &str, file: &syn::File) -> Vec<Finding> {
    let mut names = Names {
        path,
        kernel_words: path.starts_with("crates/linux/") || path.starts_with("crates/enforcement/"),
        findings: Vec::new(),
    };
    names.visit_file(file);
    names.findings
}

/// Whether a number of this name is a time without its unit.
fn lacks_unit(name: &str) -> bool {
    let mut words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
    while words
        .last()
        .is_some_and(|word| STATISTICS.contains(word) || is_percentile(word))
    {
        words.pop();
    }
    // A count per period or per wait is no time.
    if words.iter().rev().nth(1) == Some(&"per") {
        return false;
    }
    words
        .last()
        .is_some_and(|word| TIMES.contains(&word.to_lowercase().as_str()))
}

fn is_percentile(word: &str) -> bool {
    word.strip_prefix('p')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

struct Names<'a> {
    path: &'a str,
    kernel_words: bool,
    findings: Vec<Finding>,
}

impl Names<'_> {
    fn look(&mut self, name: &syn::Ident, kind: &syn::Type) {
        let text = name.to_string().to_lowercase();
        let line = name.span().start().line;
        let allowed = ALLOWED
            .iter()
            .any(|(file, allowed, _)| *file == self.path && allowed.eq_ignore_ascii_case(&text));
        if !allowed && lacks_unit(&text) && is_number(kind) {
            self.findings.push(Finding::new(
                self.path,
                line,
                format!(
                    "`{text}` is a bare number: give it a type with a unit (Duration, Instant, \
                     Rate) or the unit in its name, such as `{text}_ns`"
                ),
            ));
        }
        let names_runtime = text == "runtime" || text.starts_with("runtime_");
        if names_runtime && !self.kernel_words {
            self.findings.push(Finding::new(
                self.path,
                line,
                format!("`{text}`: CPU time per period is a budget (GLOSSARY.md)"),
            ));
        }
    }
}

/// Whether the type is a number, or an option or list of numbers.
fn is_number(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            NUMBERS.iter().any(|number| last.ident == number) || holds_number(last)
        }),
        syn::Type::Reference(reference) => is_number(&reference.elem),
        syn::Type::Array(array) => is_number(&array.elem),
        syn::Type::Slice(slice) => is_number(&slice.elem),
        _ => false,
    }
}

fn holds_number(segment: &syn::PathSegment) -> bool {
    let holder = ["Option", "Vec", "Box"]
        .iter()
        .any(|name| segment.ident == name);
    let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return false;
    };
    holder
        && arguments.args.iter().any(
            |argument| matches!(argument, syn::GenericArgument::Type(inner) if is_number(inner)),
        )
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if !item
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("repr"))
        {
            syn::visit::visit_item_struct(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.look(name, &field.ty);
        }
        syn::visit::visit_field(self, field);
    }

    fn visit_pat_type(&mut self, typed: &'ast syn::PatType) {
        if let syn::Pat::Ident(name) = &*typed.pat {
            self.look(&name.ident, &typed.ty);
        }
        syn::visit::visit_pat_type(self, typed);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.look(&item.ident, &item.ty);
        syn::visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.look(&item.ident, &item.ty);
        syn::visit::visit_item_static(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        unitless_times("crates/a/src/a.rs", &syn::parse_file(text).unwrap()).len()
    }

    #[test]
    fn times_without_units_are_found_wherever_they_are_declared() {
        assert_eq!(count("struct S { timeout: u64 }"), 1);
        assert_eq!(count("struct S { wait_time: f64 }"), 1);
        assert_eq!(count("struct S { latency_p99: Option<u64> }"), 1);
        assert_eq!(count("enum E { A { max_wait: Vec<f64> } }"), 1);
        assert_eq!(count("fn f(period: u32) {}"), 1);
        assert_eq!(count("fn f() { let delay: u64 = 1; }"), 1);
        assert_eq!(count("const POLL_INTERVAL: u64 = 5;"), 1);
        assert_eq!(count("static TIMEOUT: [u64; 2] = [1, 2];"), 1);
    }

    #[test]
    fn units_in_types_or_names_pass_and_so_do_counts() {
        assert_eq!(count("struct S { timeout: Duration, timeout_ns: u64 }"), 0);
        assert_eq!(
            count("struct S { periods: u64, period_index: u64, deadline_misses: u32 }"),
            0
        );
        assert_eq!(count("struct S { latency_p99_ns: u64, delay_ms: f64 }"), 0);
        assert_eq!(
            count("fn f(elapsed_seconds: f64, events_per_period: u32) {}"),
            0
        );
        assert_eq!(count("#[repr(C)] struct S { sched_deadline: u64 }"), 0);
        assert_eq!(count("fn f(bandwidth: f64, priority: u8) {}"), 0);
    }

    #[test]
    fn a_budget_is_called_runtime_only_towards_the_kernel() {
        let text = "struct S { runtime_ns: u64 }";
        assert_eq!(count(text), 1);
        let file = syn::parse_file(text).unwrap();
        assert_eq!(unitless_times("crates/linux/src/a.rs", &file), vec![]);
    }
}
