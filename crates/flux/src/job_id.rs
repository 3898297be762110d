//! The id of a job as Flux prints it (RFC 19): a prefix and a number in base 58 with the digits of Bitcoin.

/// The form for people.
pub fn f58(id: u64) -> String {
    format!("ƒ{}", digits(id))
}

/// The form in ASCII for addresses and programs, as `flux job id --to=f58plain` prints it.
pub fn f58_plain(id: u64) -> String {
    format!("f{}", digits(id))
}

fn digits(id: u64) -> String {
    let bytes = id.to_be_bytes();
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1);
    bs58::encode(&bytes[first..]).into_string()
}

/// Reads an id in any form that Flux reads: with either prefix, decimal, hexadecimal, or as the name of the job's directory
/// in the key-value store (flux-core, `src/common/libjob/id.c` and `src/common/libutil/fluid.c`).
pub fn parse(text: &str) -> Option<u64> {
    let text = text.strip_prefix("job.").unwrap_or(text);
    if text.contains('.') {
        return dotted(text);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return hexadecimal(digits);
    }
    if let Ok(id) = text.parse() {
        return Some(id);
    }
    let digits = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f'))?;
    let bytes = bs58::decode(digits).into_vec().ok()?;
    let mut whole = [0; 8];
    whole.get_mut(8_usize.checked_sub(bytes.len())?..)?.copy_from_slice(&bytes);
    Some(u64::from_be_bytes(whole))
}

/// Four groups of up to four digits.
fn dotted(text: &str) -> Option<u64> {
    let groups: Vec<&str> = text.split('.').collect();
    let is_short = |group: &&str| group.len() <= 4;
    let groups: [&str; 4] =
        groups.try_into().ok().filter(|groups: &[_; 4]| groups.iter().all(is_short))?;
    groups.into_iter().try_fold(0, |id, group| Some(id << 16 | hexadecimal(group)?))
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_number_that_people_read() {
        // As `flux job id --to=f58` of flux-core 0.88 prints them.
        for (id, text) in [(25_568_477_184, "ƒfxQ8UX"), (0, "ƒ1"), (57, "ƒz"), (58, "ƒ21")] {
            assert_eq!(f58(id), text);
            let plain = text.replace('ƒ', "f");
            assert_eq!(f58_plain(id), plain);
            assert_eq!([text, &plain, &id.to_string()].map(parse), [Some(id); 3]);
        }
        for text in ["", "ƒ0", "x", "ƒjpXCZedGfVQjpXCZedGfVQ", "-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_id_is_read_in_every_form_of_flux() {
        // As `flux job id --to=hex`, `dothex` and `kvs` of flux-core 0.88 print it.
        for text in ["0x5f4000000", "0000.0005.f400.0000", "job.0000.0005.f400.0000", "0.5.F400.0"]
        {
            assert_eq!(parse(text), Some(25_568_477_184), "{text}");
        }
        for text in ["0x", "0x+1", "1.2.3", "1.2.3.4.5", "1.2.3.10000", "1..3.4", "job.", "job.f.1"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
