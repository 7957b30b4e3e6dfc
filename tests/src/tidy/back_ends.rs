//! Back ends are asked what they can do; only the model and enforcement know them by name.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use tailbound_model::BackendKind;

use super::Finding;
use super::source::{tokens, without_tests};

/// The folders whose code knows back ends by name.
const AT_HOME: [&str; 2] = ["crates/model/", "crates/enforcement/"];

/// Names of a back end outside, each for a reason: file, name, reason.
pub const ALLOWED: [(&str, &str, &str); 0] = [];

const ADVICE: &str = "ask what the back end can do (`BackendKind::traits`); only `model` and `enforcement` \
     know one by its name";

/// Finds back ends that Rust code outside their home asks for by their kind or spells by their name. Tests and
/// comments may name them.
pub fn named_in_rust(path: &str, file: &syn::File) -> Vec<Finding> {
    let is_product = ["crates/", "python/"]
        .iter()
        .any(|folder| path.starts_with(folder));
    if !is_product
        || !path.contains("/src/")
        || is_test(path)
        || AT_HOME.iter().any(|home| path.starts_with(home))
    {
        return Vec::new();
    }
    let code = tokens(without_comments(without_tests(file)));
    let mut findings = Vec::new();
    for (index, token) in code.iter().enumerate() {
        let line = token.span().start().line;
        let name = match token {
            TokenTree::Ident(_) => kind_after(&code[index..]),
            TokenTree::Literal(literal) => spelled_in(&literal.to_string()),
            TokenTree::Group(_) | TokenTree::Punct(_) => None,
        };
        let is_allowed = |name: &str| ALLOWED.iter().any(|one| (one.0, one.1) == (path, name));
        if let Some(name) = name.filter(|name| !is_allowed(name)) {
            findings.push(Finding::new(path, line, format!("`{name}`: {ADVICE}")));
        }
    }
    findings
}

/// Finds back ends that Python code of the package spells by their name; comments and docstrings may.
pub fn named_in_python(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_docstring = false;
    for (index, line) in text.lines().enumerate() {
        let quotes = line.matches("\"\"\"").count();
        let is_prose = in_docstring || quotes > 0 || line.trim_start().starts_with('#');
        in_docstring ^= quotes % 2 == 1;
        if let Some(name) = spelled_in(line).filter(|_| !is_prose) {
            findings.push(Finding::new(path, index + 1, format!("`{name}`: {ADVICE}")));
        }
    }
    findings
}

/// Whether a file of a `src` folder is compiled for tests alone.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// The kind that `BackendKind::` is followed by, if these tokens begin so.
fn kind_after(code: &[TokenTree]) -> Option<String> {
    let text = |index: usize| code.get(index).map(ToString::to_string).unwrap_or_default();
    if text(0) != "BackendKind" || text(1) != ":" || text(2) != ":" {
        return None;
    }
    let named = text(3);
    let kinds = BackendKind::ALL.map(|kind| format!("{kind:?}"));
    let is_kind = named.starts_with('{') || kinds.contains(&named);
    is_kind.then(|| format!("BackendKind::{named}"))
}

/// The back end that a text spells. Names of one word are words of their own and mean other things, too.
fn spelled_in(text: &str) -> Option<String> {
    let mut names = BackendKind::ALL.map(|kind| kind.traits().name).into_iter();
    let name = names.find(|name| name.contains('-') && text.contains(name));
    name.map(str::to_owned)
}

/// The tokens without attributes, of which documentation comments are one kind.
fn without_comments(stream: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    for token in stream {
        let is_attribute = matches!(
            (&token, kept.last()),
            (TokenTree::Group(group), Some(TokenTree::Punct(mark)))
                if group.delimiter() == proc_macro2::Delimiter::Bracket && mark.as_char() == '#'
        );
        match token {
            TokenTree::Group(group) if is_attribute && is_comment(&group) => _ = kept.pop(),
            TokenTree::Group(group) => {
                let mut inner =
                    proc_macro2::Group::new(group.delimiter(), without_comments(group.stream()));
                inner.set_span(group.span());
                kept.push(TokenTree::Group(inner));
            }
            other => kept.push(other),
        }
    }
    kept.into_iter().collect()
}

fn is_comment(attribute: &proc_macro2::Group) -> bool {
    let first = attribute.stream().into_iter().next();
    first.is_some_and(|first| first.to_token_stream().to_string() == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        named_in_rust(path, &syn::parse_file(text).unwrap()).len()
    }

    #[test]
    fn kinds_and_spellings_are_found_outside_their_home() {
        let outside = "crates/cli/src/a.rs";
        for text in [
            "fn f(kind: BackendKind) -> bool { kind == BackendKind::DsFreeze }",
            "fn f() { matches!(k, model::BackendKind::None) }",
            "use tailbound_model::BackendKind::{Deadline, RtGroup};",
            "const HELP: &str = \"choose ds-freeze\";",
            "#[arg(default_value = \"cfs-quota\")] struct A;",
        ] {
            assert_eq!(count(outside, text), 1, "{text}");
            assert_eq!(count("crates/model/src/a.rs", text), 0, "{text}");
            assert_eq!(count("crates/enforcement/src/a.rs", text), 0, "{text}");
            assert_eq!(count("crates/cli/tests/a.rs", text), 0, "{text}");
            assert_eq!(count("crates/cli/src/verbs/tests.rs", text), 0, "{text}");
            let test = format!("#[cfg(test)] mod tests {{ {text} }}");
            assert_eq!(count(outside, &test), 0, "{text}");
        }
    }

    #[test]
    fn questions_and_comments_pass() {
        for text in [
            "/// As `ds-freeze` does.\nfn f() -> BackendKind { BackendKind::default() }",
            "fn f() { BackendKind::ALL.iter(); BackendKind::names(|_| true); }",
            "struct S { /// For xen-rtds.\n a: u8 }",
            "const WORD: &str = \"dedicated\";",
        ] {
            assert_eq!(count("crates/cli/src/a.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn spellings_in_python_are_found_but_not_in_docstrings() {
        let text =
            "\"\"\"Uses ds-freeze.\n\nor rt-group\n\"\"\"\n# xen-rtds\nkind = \"cfs-quota\"\n";
        let findings = named_in_python("a.py", text);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 6);
    }
}
