//! Just enough of Markdown: fenced blocks with the comment before them, headings, links.

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The line of its opening fence, from 1.
    pub line: usize,
    /// The word behind the opening fence, such as `console`.
    pub language: String,
    /// The HTML comment on the lines right before it, without its marks.
    pub comment: Option<String>,
    /// The lines between the fences.
    pub text: String,
}

/// The fenced blocks of a document, in order.
pub fn fences(document: &str) -> Vec<Fence> {
    let lines: Vec<&str> = document.lines().collect();
    let mut fences = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        let Some(language) = lines[index].trim_start().strip_prefix("```") else {
            index += 1;
            continue;
        };
        let start = index;
        index += 1;
        let mut text = String::new();
        while index < lines.len() && !lines[index].trim_start().starts_with("```") {
            text.push_str(lines[index]);
            text.push('\n');
            index += 1;
        }
        index += 1;
        fences.push(Fence {
            line: start + 1,
            language: language.trim().to_owned(),
            comment: comment_before(&lines[..start]),
            text,
        });
    }
    fences
}

fn comment_before(lines: &[&str]) -> Option<String> {
    let last = lines.iter().rev().find(|line| !line.trim().is_empty())?;
    let inner = last.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    Some(inner.trim().to_owned())
}

/// The text outside fenced blocks, line by line, with line numbers from 1.
pub fn prose(document: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    document
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let fence = line.trim_start().starts_with("```");
            if fence {
                inside = !inside;
            }
            (!inside && !fence).then_some((index + 1, line))
        })
        .collect()
}

/// The targets of links and images, with their lines.
pub fn links(document: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(document) {
        for (start, _) in line.match_indices("](") {
            if let Some(end) = line[start + 2..].find(')') {
                links.push((number, line[start + 2..start + 2 + end].to_owned()));
            }
        }
    }
    links
}

/// The anchors of a document's headings, as code hosts make them.
pub fn anchors(document: &str) -> Vec<String> {
    prose(document)
        .into_iter()
        .filter(|(_, line)| line.starts_with('#'))
        .map(|(_, line)| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_')
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

/// Links of `document` that lead nowhere. `read` gives the text of a file by its path from the
/// document's folder, or `None` where there is none; of a folder or an image it gives any text.
pub fn broken_links(document: &str, read: impl Fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    links(document)
        .into_iter()
        .filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"))
        .filter(|(_, target)| {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let text = if path.is_empty() {
                Some(document.to_owned())
            } else {
                read(path)
            };
            match text {
                None => true,
                Some(text) => !anchor.is_empty() && !anchors(&text).iter().any(|a| a == anchor),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_know_their_language_line_and_comment() {
        let text = "a\n<!-- run: exit=2 -->\n```console\n$ x\n```\n\n```toml\nb = 1\n```\n";
        let blocks = fences(text);
        assert_eq!(blocks.len(), 2);
        assert_eq!(blocks[0].line, 3);
        assert_eq!(blocks[0].language, "console");
        assert_eq!(blocks[0].comment.as_deref(), Some("run: exit=2"));
        assert_eq!(blocks[0].text, "$ x\n");
        assert_eq!(blocks[1].comment, None);
    }

    #[test]
    fn broken_links_and_anchors_are_found() {
        let text = "# Two words\n[a](b.md) [c](gone.md) [d](#two-words) [e](#three)\n\
                    [f](https://example.org/x) [g](b.md#there) [h](b.md#not)\n\
                    ```\n[i](in-code.md)\n```\n";
        let read = |path: &str| (path == "b.md").then(|| "## There".to_owned());
        let broken: Vec<String> = broken_links(text, read)
            .into_iter()
            .map(|(_, t)| t)
            .collect();
        assert_eq!(broken, ["gone.md", "#three", "b.md#not"]);
    }
}
