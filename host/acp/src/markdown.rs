//! Embeds outside text in Markdown for editors, so that it is shown literally and cannot end its block.

/// Returns a text as a fenced block.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_run_cannot_end_its_fence() {
        assert_eq!(fenced("a\n```\nb"), "````\na\n```\nb\n````");
    }
}
