//! The options that a batch script gives to `flux batch` in its own lines, as `#flux: --output=FILE` (RFC 36).

/// The place of the script's output by the last of its directives that has one.
pub(crate) fn output(script: &str) -> Option<String> {
    script.lines().filter_map(words).filter_map(|words| output_option(&words)).next_back()
}

/// The value of the last `--output` among `words`, in full or abbreviated.
pub(crate) fn output_option(words: &[String]) -> Option<String> {
    let is_output = |name: &str| name.len() > "--o".len() && "--output".starts_with(name);
    let value = |(position, word): (usize, &String)| match word.split_once('=') {
        Some((name, value)) => is_output(name).then(|| value.to_owned()),
        None => is_output(word).then(|| words.get(position + 1).cloned())?,
    };
    words.iter().enumerate().filter_map(value).next_back()
}

/// The words of a directive: characters that are none of a word, `flux:` or `FLUX:`, then options as for a shell.
fn words(line: &str) -> Option<Vec<String>> {
    let tag = line.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let options = ["flux:", "FLUX:"].into_iter().find_map(|sentinel| tag.strip_prefix(sentinel));
    shlex::split(options?)
}

#[cfg(test)]
mod tests {
    use super::output;

    #[test]
    fn the_last_directive_with_an_output_counts() {
        for (script, expected) in [
            ("#!/bin/sh\n# flux: --job-name=a\nflux run a\n", None),
            ("#flux: -N1 --output=/a/o.{{id}} # there\n#flux: -t 10m\n", Some("/a/o.{{id}}")),
            ("#flux: --output=a\n#flux: --outp 'b c'\n", Some("b c")),
            ("// FLUX: --output a\n", Some("a")),
            ("#flux: -o output.mode=truncate --ordered\n", None),
            ("echo flux: --output=a\nflux run --output=a b\n", None),
            ("#flux: --output\n#flux: --output='a\n", None),
        ] {
            assert_eq!(output(script).as_deref(), expected, "{script}");
        }
    }
}
