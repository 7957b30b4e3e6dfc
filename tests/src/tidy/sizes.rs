//! The limit of functions, and names without content.

use syn::spanned::Spanned;
use syn::visit::Visit;

use super::Finding;

/// The most lines that a function may have, from its signature to its closing brace.
pub const FUNCTION_LINES: usize = 70;
/// Names without content.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "common", "helpers", "helper", "misc"];

/// Finds functions that are too long.
pub fn function_lengths(path: &str, file: &syn::File) -> Vec<Finding> {
    let mut lengths = Lengths {
        path,
        findings: Vec::new(),
    };
    lengths.visit_file(file);
    lengths.findings
}

struct Lengths<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Lengths<'_> {
    fn measure(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.span().end().line;
        let lines = last - first + 1;
        if lines > FUNCTION_LINES {
            self.findings.push(Finding::new(
                self.path,
                first,
                format!(
                    "`{}` has {lines} lines; at most {FUNCTION_LINES}: split it",
                    signature.ident
                ),
            ));
        }
    }
}

impl<'ast> Visit<'ast> for Lengths<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.measure(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.measure(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

/// Finds a file or folder whose name says nothing.
pub fn empty_names(path: &str) -> Vec<Finding> {
    path.split('/')
        .map(|part| part.rsplit_once('.').map_or(part, |(stem, _)| stem))
        .filter(|stem| EMPTY_NAMES.contains(stem))
        .map(|stem| {
            Finding::new(
                path,
                1,
                format!("\"{stem}\" says nothing: name it by what is inside"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> syn::File {
        syn::parse_file(text).unwrap()
    }

    #[test]
    fn a_function_of_seventy_lines_passes_and_one_more_does_not() {
        let function =
            |lines: usize| format!("fn f() {{\n{}}}\n", "let _a = 1;\n".repeat(lines - 2));
        assert_eq!(function_lengths("a.rs", &parsed(&function(70))), vec![]);
        assert_eq!(function_lengths("a.rs", &parsed(&function(71))).len(), 1);
    }

    #[test]
    fn methods_and_nested_functions_are_measured_too() {
        let body = "let _a = 1;\n".repeat(80);
        let method = format!("struct S;\nimpl S {{ fn f() {{\n{body}}} }}\n");
        assert_eq!(function_lengths("a.rs", &parsed(&method)).len(), 1);
        let default = format!("trait T {{ fn f() {{\n{body}}} }}\n");
        assert_eq!(function_lengths("a.rs", &parsed(&default)).len(), 1);
        let module = format!("mod m {{ fn f() {{\n{body}}} }}\n");
        assert_eq!(function_lengths("a.rs", &parsed(&module)).len(), 1);
    }

    #[test]
    fn empty_names_are_found_in_folders_and_files() {
        assert_eq!(empty_names("crates/a/src/utils.rs").len(), 1);
        assert_eq!(empty_names("crates/common/src/lib.rs").len(), 1);
        assert_eq!(empty_names("crates/uncommon/src/utilisation.rs"), vec![]);
    }
}
