//! The id of a job as Flux prints it (RFC 19): a prefix, and a number in base 58 as Bitcoin writes it.

/// The number as people read it.
pub fn f58(id: u64) -> String {
    let bytes = id.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
    format!("ƒ{}", bs58::encode(&bytes[first..]).into_string())
}

/// The number behind what people write: with either prefix, or decimal.
pub fn parse(text: &str) -> Option<u64> {
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    let bytes = bs58::decode(digits).into_vec().ok()?;
    let mut whole = [0; 8];
    whole.get_mut(8_usize.checked_sub(bytes.len())?..)?.copy_from_slice(&bytes);
    Some(u64::from_be_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_number_that_people_read() {
        // As `flux job id --to=f58` of flux-core 0.88 prints them.
        for (id, text) in [(25_568_477_184, "ƒfxQ8UX"), (0, "ƒ1"), (57, "ƒz"), (58, "ƒ21")] {
            assert_eq!(f58(id), text);
            assert_eq!([text, &text.replace('ƒ', "f"), &id.to_string()].map(parse), [Some(id); 3]);
        }
        for text in ["", "ƒ0", "x", "ƒjpXCZedGfVQjpXCZedGfVQ", "-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
