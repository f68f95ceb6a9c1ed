//! Text that others wrote, in Markdown, which editors show: it stands there as it is and ends where haft says.

/// A text as Markdown shows it literally.
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
