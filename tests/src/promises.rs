//! Promises of a document: rows of its tables that name the tests which show them.
//!
//! The first cell of such a row is the promise's number (`D3`), the last one names a file of tests and
//! functions in that file: `` `crates/x/tests/y.rs`: `first_test`, `second_test` ``; several files are
//! separated by semicolons.

/// A numbered row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The line in the document, from 1.
    pub line: usize,
    /// The number, such as `D3`.
    pub number: String,
    /// The tests that show the promise, each with the path of its file.
    pub tests: Vec<(String, String)>,
}

/// The promises of a document, in order.
pub fn promises(document: &str) -> Vec<Promise> {
    let lines = document.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let cells: Vec<&str> = line.trim().strip_prefix('|')?.split('|').collect();
            let number = cells.first()?.trim();
            let last = cells.iter().rev().find(|cell| !cell.trim().is_empty())?;
            is_number(number).then(|| Promise {
                line: index + 1,
                number: number.to_owned(),
                tests: last.split(';').flat_map(tests_of_file).collect(),
            })
        })
        .collect()
}

/// Whether a cell is a capital letter followed by digits.
fn is_number(cell: &str) -> bool {
    let mut characters = cell.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase())
        && cell.len() > 1
        && characters.all(|digit| digit.is_ascii_digit())
}

/// The tests that one part of a cell names.
fn tests_of_file(part: &str) -> Vec<(String, String)> {
    let mut quoted = part.split('`').skip(1).step_by(2);
    let Some(file) = quoted.next() else {
        return Vec::new();
    };
    quoted
        .map(|test| (file.to_owned(), test.to_owned()))
        .collect()
}

/// Whether `source` has a test of that name that is not left out: a function after an attribute
/// `#[test]` in Rust, a method after an annotation `@Test` in Java.
pub fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let heads = [format!("fn {name}("), format!("void {name}(")];
    lines.iter().enumerate().any(|(index, line)| {
        let begins = heads.iter().any(|head| line.starts_with(head.as_str()));
        let declares = begins || line.contains(&format!(" {}", heads[1]));
        let attributes: Vec<&&str> = lines[..index]
            .iter()
            .rev()
            .take_while(|above| above.starts_with("#[") || above.starts_with('@'))
            .collect();
        let marked = |marks: &[&str]| {
            let mut attributes = attributes.iter();
            attributes.any(|line| marks.iter().any(|mark| line.starts_with(mark)))
        };
        declares && marked(&["#[test]", "@Test"]) && !marked(&["#[ignore", "@Disabled"])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_rows_are_promises_and_others_are_not() {
        let text = "| No. | Promise | Test |\n| --- | --- | --- |\n\
                    | A1 | x | `a.rs`: `one`, `two`; `B.java`: `three` |\n| A2 | y | nothing yet |\n";
        let rows = promises(text);
        let pair = |file: &str, test: &str| (file.to_owned(), test.to_owned());
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].line, rows[0].number.as_str()), (3, "A1"));
        let tests = [
            pair("a.rs", "one"),
            pair("a.rs", "two"),
            pair("B.java", "three"),
        ];
        assert_eq!(rows[0].tests, tests);
        assert!(rows[1].tests.is_empty());
    }

    #[test]
    fn a_test_is_a_marked_function_that_runs() {
        let source = "#[test]\nfn here() {}\nfn plain() {}\n#[test]\n#[ignore]\nfn left_out() {}\n";
        assert!(has_test(source, "here"));
        assert!(!has_test(source, "plain"));
        assert!(!has_test(source, "left_out"));
        assert!(!has_test(source, "her"));
        let java =
            "    @Test\n    void inJava() {\n    @Disabled\n    @Test\n    public void off() {\n";
        assert!(has_test(java, "inJava"));
        assert!(!has_test(java, "off"));
    }
}
