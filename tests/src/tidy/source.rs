//! Contents that are forbidden in source: unsafe code, kernel paths and impure calls where they do not
//! belong, ignored tests, marks of unfinished work.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use super::Finding;

/// The folders with unsafe code and paths under /sys and /proc: the crate that speaks to the kernel for all others, and
/// the one that is linked into programs of others without them, and patches their text.
const SYSTEM_FOLDERS: [&str; 2] = ["crates/linux/", "crates/trigger/"];
/// Crates that touch no clock, file, network or process.
const PURE: [&str; 9] = [
    "crates/application-report/src/",
    "crates/balance/src/",
    "crates/time/src/",
    "crates/distribution/src/",
    "crates/execution-time/src/",
    "crates/analysis/src/",
    "crates/reservation/src/",
    "crates/sampling/src/",
    "crates/simulator/src/",
];
/// The modules of the standard library that do.
const IMPURE: [&str; 6] = ["env", "fs", "net", "os", "process", "time"];

/// The folder of the library for programs in C: pointers from C are unsafe, and nothing else of it is.
const C_FOLDER: &str = "crates/c-library/";

fn is_of_system(path: &str) -> bool {
    SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Finds `unsafe` outside the crates that may have it, in macros too.
pub fn unsafe_code(path: &str, file: &syn::File) -> Vec<Finding> {
    if is_of_system(path) || path.starts_with(C_FOLDER) {
        return Vec::new();
    }
    tokens(file.to_token_stream())
        .iter()
        .filter(|token| matches!(token, TokenTree::Ident(name) if name == "unsafe"))
        .map(|token| {
            let line = token.span().start().line;
            Finding::new(path, line, "unsafe code belongs in crates/linux")
        })
        .collect()
}

/// Finds paths under /sys and /proc outside the crates that know them; tests may name them.
pub fn kernel_paths(path: &str, file: &syn::File) -> Vec<Finding> {
    if is_of_system(path) || !path.contains("/src/") || path.starts_with("tests/") {
        return Vec::new();
    }
    tokens(without_tests(file))
        .iter()
        .filter(|token| {
            let text = token.to_string();
            text.starts_with("\"/sys/") || text.starts_with("\"/proc/")
        })
        .map(|token| {
            let message = format!("{token}: only crates/linux knows paths under /sys and /proc");
            Finding::new(path, token.span().start().line, message)
        })
        .collect()
}

/// Finds the outside world in the crates that must not see it; their tests may.
pub fn impure_calls(path: &str, file: &syn::File) -> Vec<Finding> {
    if !PURE.iter().any(|pure| path.starts_with(pure)) {
        return Vec::new();
    }
    let flat = tokens(without_tests(file));
    let mut findings = Vec::new();
    for (index, token) in flat.iter().enumerate() {
        if token.to_string() != "std" {
            continue;
        }
        for named in named_after_std(&flat[index + 1..]) {
            if IMPURE.contains(&named.to_string().as_str()) {
                findings.push(Finding::new(
                    path,
                    named.span().start().line,
                    format!("std::{named}: this crate touches no file, network, process or clock"),
                ));
            }
        }
    }
    findings
}

/// The modules named right after `std`: one, or those of a `{...}` group.
fn named_after_std(rest: &[TokenTree]) -> Vec<&TokenTree> {
    let text = |index: usize| rest.get(index).map(ToString::to_string).unwrap_or_default();
    if text(0) != ":" || text(1) != ":" {
        return Vec::new();
    }
    match rest.get(2) {
        Some(TokenTree::Group(group)) => {
            let members = tokens(group.stream()).len();
            rest[3..].iter().take(members).collect()
        }
        Some(name) => vec![name],
        None => Vec::new(),
    }
}

/// Finds tests that are never run. A file that runs its ignored ones itself, as programs of their
/// own (`--ignored`), may have them.
pub fn ignored_tests(path: &str, file: &syn::File) -> Vec<Finding> {
    let flat = tokens(file.to_token_stream());
    if flat
        .iter()
        .any(|token| token.to_string() == "\"--ignored\"")
    {
        return Vec::new();
    }
    flat.windows(2)
        .filter_map(|pair| match pair {
            [TokenTree::Punct(mark), TokenTree::Group(group)] if mark.as_char() == '#' => {
                let first = group.stream().into_iter().next()?;
                (first.to_string() == "ignore").then(|| first.span().start().line)
            }
            _ => None,
        })
        .map(|line| Finding::new(path, line, "a test that is never run; run it or remove it"))
        .collect()
}

/// Whether a module is compiled for tests only.
pub fn is_test_module(module: &syn::ItemMod) -> bool {
    module.attrs.iter().any(|attribute| {
        let meta = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("cfg") && meta.contains("test")
    })
}

/// The file's tokens without its `#[cfg(test)]` modules.
pub(super) fn without_tests(file: &syn::File) -> TokenStream {
    let is_test =
        |item: &syn::Item| matches!(item, syn::Item::Mod(module) if is_test_module(module));
    file.items
        .iter()
        .filter(|item| !is_test(item))
        .map(ToTokens::to_token_stream)
        .collect()
}

/// All tokens, each group before its contents.
pub(super) fn tokens(stream: TokenStream) -> Vec<TokenTree> {
    let mut flat = Vec::new();
    for token in stream {
        let inner = match &token {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        };
        flat.push(token);
        if let Some(inner) = inner {
            flat.extend(tokens(inner));
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> syn::File {
        syn::parse_file(text).unwrap()
    }

    #[test]
    fn unsafe_code_is_found_in_functions_and_macros_but_not_in_linux() {
        let text = "fn f() { m!(unsafe { g() }); }\nunsafe fn h() {}";
        assert_eq!(unsafe_code("crates/a/src/a.rs", &parsed(text)).len(), 2);
        assert_eq!(unsafe_code("crates/linux/src/a.rs", &parsed(text)), vec![]);
        let border = "crates/c-library/src/a.rs";
        assert_eq!(unsafe_code(border, &parsed(text)), vec![]);
        let path = "fn f() { read(\"/proc/self\"); }";
        assert_eq!(kernel_paths(border, &parsed(path)).len(), 1);
        let words = "//! unsafe\n#![allow(unsafe_code)]\nfn f() { let _ = \"unsafe\"; }";
        assert_eq!(unsafe_code("crates/a/src/a.rs", &parsed(words)), vec![]);
    }

    #[test]
    fn kernel_paths_are_found_in_code_but_not_in_tests() {
        let text = "fn f() { read(\"/sys/fs/cgroup\"); println!(\"{}\", \"/proc/self\"); }";
        assert_eq!(kernel_paths("crates/a/src/a.rs", &parsed(text)).len(), 2);
        assert_eq!(kernel_paths("crates/linux/src/a.rs", &parsed(text)), vec![]);
        let test = format!("#[cfg(test)] mod tests {{ {text} }}");
        assert_eq!(kernel_paths("crates/a/src/a.rs", &parsed(&test)), vec![]);
        let message = "fn f() { tell(\"see /proc/self\"); }";
        assert_eq!(kernel_paths("crates/a/src/a.rs", &parsed(message)), vec![]);
    }

    #[test]
    fn the_outside_world_is_found_in_pure_crates_only() {
        let text =
            "use std::{fmt, fs};\nfn f() { std::time::Instant::now(); std::cmp::max(1, 2); }";
        assert_eq!(
            impure_calls("crates/analysis/src/a.rs", &parsed(text)).len(),
            2
        );
        assert_eq!(impure_calls("crates/linux/src/a.rs", &parsed(text)), vec![]);
    }

    #[test]
    fn an_ignored_test_is_found() {
        let text = "#[test]\n#[ignore = \"slow\"]\nfn f() {}";
        assert_eq!(ignored_tests("a.rs", &parsed(text)).len(), 1);
        let run = format!("{text}\nconst RUN: &[&str] = &[\"--ignored\"];");
        assert_eq!(ignored_tests("a.rs", &parsed(&run)), vec![]);
        assert_eq!(ignored_tests("a.rs", &parsed("#[test]\nfn f() {}")), vec![]);
    }
}
