//! The final answer of a response: what stands in its last `\boxed{…}`.
//!
//! Models think aloud, so a response may hold several boxes; the one that starts last is the one they settled
//! on. A response cut off inside a box has not given that answer, and the last box that was closed stands. Of
//! nested boxes the inner one counts, so `\boxed{\text{so }\boxed{5}}` answers `5`.

use std::ops::Range;

/// The commands that draw a box around their argument.
const BOXES: [&str; 2] = ["\\boxed", "\\fbox"];

/// How many boxes within boxes are kept in mind, at least.
const NESTED: usize = 512;

/// The content of the last closed `\boxed{…}` or `\fbox{…}`, as written.
///
/// Braces balance as in LaTeX: `\{` and `\}` are characters, not groups. One pass, so a response of nothing but
/// opening boxes costs no more than any other.
pub fn last_boxed(response: &str) -> Option<&str> {
    let mut last: Option<Range<usize>> = None;
    scan(response, |content| {
        if last.as_ref().is_none_or(|latest| content.start > latest.start) {
            last = Some(content);
        }
    });
    last.map(|content| &response[content])
}

/// Where the contents of the closed boxes stand, in the order in which they close. Of very many, the last ones.
pub fn all_boxed(response: &str) -> Vec<Range<usize>> {
    const MOST: usize = 256;
    let mut all = Vec::new();
    scan(response, |content| {
        if all.len() == 2 * MOST {
            all.drain(..MOST);
        }
        all.push(content);
    });
    all
}

/// Reports the content of every box when it closes.
fn scan(response: &str, mut closed: impl FnMut(Range<usize>)) {
    let bytes = response.as_bytes();
    // How many groups are open, and for every open box where its content starts and how many were open around it.
    let mut depth = 0_usize;
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => {
                if let Some(start) = box_content(response, at) {
                    // Nobody nests boxes by the thousand: the outermost are forgotten, so that memory is bounded.
                    if open.len() == 2 * NESTED {
                        open.drain(..NESTED);
                    }
                    open.push((start, depth));
                    depth += 1;
                    at = start;
                    continue;
                }
                // `\\boxed{…}` (a line break before a box, or a doubly escaped one) is still a box.
                let escapes = matches!(bytes.get(at + 1), Some(b'{' | b'}' | b'\\'));
                if escapes && box_content(response, at + 1).is_none() {
                    at += 1;
                }
            }
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                // Both ends lie next to ASCII braces, so they are character boundaries.
                if let Some((start, _)) = open.pop_if(|(_, around)| *around == depth) {
                    closed(start..at);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Where the content starts of a box whose command begins at byte `at`, if one does.
fn box_content(text: &str, at: usize) -> Option<usize> {
    // Most commands are no boxes: look at one byte before looking at the rest.
    if !matches!(text.as_bytes().get(at + 1), Some(b'b' | b'f')) {
        return None;
    }
    let rest = text.get(at..)?;
    let argument = BOXES.iter().find_map(|command| rest.strip_prefix(command))?;
    let content = argument.trim_start().strip_prefix('{')?;
    Some(text.len() - content.len())
}

#[cfg(test)]
mod tests {
    use super::{all_boxed, last_boxed};

    #[test]
    fn specification() {
        let table: &[(&str, Option<&str>)] = &[
            // Plain boxes.
            (r"\boxed{42}", Some("42")),
            (r"so it is \fbox{42}.", Some("42")),
            (r"\boxed {42}", Some("42")),
            (r"\boxed{ 42 }", Some(" 42 ")),
            (r"\boxed{}", Some("")),
            (r"$\boxed{3−1 é}$", Some("3−1 é")),
            // The last one wins.
            (r"\boxed{1} no, \boxed{2}", Some("2")),
            (r"\boxed{1} no, \fbox{2}", Some("2")),
            // Nested groups belong to the content.
            (r"\boxed{\frac{1}{2}}", Some(r"\frac{1}{2}")),
            (r"\boxed{{{7}}}", Some("{{7}}")),
            (r"\boxed{\{1, 2\}}", Some(r"\{1, 2\}")),
            (r"\boxed{(0, 1\}}", Some(r"(0, 1\}")),
            (r"\boxed{a\\}", Some(r"a\\")),
            // Of nested boxes, the inner.
            (r"\boxed{\boxed{5}}", Some("5")),
            (r"\boxed{x \fbox{5} y}", Some("5")),
            // A box cut off does not count.
            (r"\boxed{1} then \boxed{2", Some("1")),
            (r"\boxed{1} then \boxed{\frac{2}{3}", Some("1")),
            (r"\boxed{1 then \boxed{2}", Some("2")),
            (r"\boxed{42", None),
            (r"\boxed", None),
            (r"\boxed{42\}", None),
            // Braces around and between do not matter.
            (r"} { \boxed{3} {", Some("3")),
            (r"x \\boxed{3}", Some("3")),
            (r"\\\boxed{3}", Some("3")),
            // Not boxes.
            ("", None),
            ("the answer is 42", None),
            (r"\boxed 42", None),
            (r"\boxedx{42}", None),
            (r"boxed{42}", None),
            (r"\", None),
        ];
        for (response, content) in table {
            assert_eq!(last_boxed(response), *content, "{response:?}");
        }
    }

    #[test]
    fn many_open_boxes_take_linear_time() {
        let response = r"\boxed{".repeat(200_000) + "1}";
        assert_eq!(last_boxed(&response), Some("1"));
    }

    #[test]
    fn all_boxes_in_the_order_they_close() {
        let response = r"\boxed{1}, \fbox{{2}} and \boxed{a \boxed{3} b} and \boxed{4";
        let contents: Vec<&str> = all_boxed(response).into_iter().map(|content| &response[content]).collect();
        assert_eq!(contents, ["1", "{2}", "3", r"a \boxed{3} b"]);
        assert_eq!(all_boxed(&r"\boxed{1}".repeat(10_000)).last(), Some(&(89_998..89_999)));
    }
}
