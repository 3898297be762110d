//! Whether a dump was written to its end.

use crate::system::files;
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// A tar archive ends with two blocks of zeros (POSIX.1-2024, pax, "ustar Interchange Format").
const END: usize = 1024;

/// Why a dump is not known to be whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WholeError {
    /// It cannot be read, or its compression is cut off or damaged.
    #[error("read it")]
    Read {
        #[source]
        source: io::Error,
    },
    #[error("it lacks the end of a tar archive")]
    CutOff,
    #[error("the broker failed, and only archives in the formats tar and tar.gz can be checked")]
    UnknownFormat,
}

/// Checks that the tar archive at `path`, compressed by gzip or not, goes to its end. The checksum
/// of gzip is checked as well.
pub(crate) fn check_whole(path: &Path) -> Result<(), WholeError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = files::open_regular(path).map_err(|source| WholeError::Read { source })?;
    let is = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    if is(&[".tgz", ".tar.gz"]) {
        ends_as_tar(MultiGzDecoder::new(BufReader::new(file)))
    } else if is(&[".tar"]) {
        ends_as_tar(file)
    } else {
        Err(WholeError::UnknownFormat)
    }
}

fn ends_as_tar(mut archive: impl Read) -> Result<(), WholeError> {
    let mut buffer = vec![0; 64 * 1024];
    // How many zeros the text so far ends with.
    let mut zeros = 0_usize;
    loop {
        let length = archive.read(&mut buffer).map_err(|source| WholeError::Read { source })?;
        if length == 0 {
            break;
        }
        let end = buffer[..length].iter().rev().take_while(|byte| **byte == 0).count();
        zeros = if end == length { zeros + end } else { end };
    }
    if zeros >= END { Ok(()) } else { Err(WholeError::CutOff) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::fs;
    use std::io::Write;

    fn tar() -> Vec<u8> {
        let mut text = vec![b'x'; 1024];
        text.extend([0; END]);
        text
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn check(name: &str, content: &[u8]) -> Result<(), WholeError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        check_whole(&path)
    }

    #[test]
    fn an_archive_with_its_end_is_whole() {
        assert!(check("a.tar", &tar()).is_ok());
        assert!(check("a.tgz", &gzip(&tar())).is_ok());
        assert!(check("a.tar.gz", &gzip(&tar())).is_ok());
    }

    #[test]
    fn an_archive_that_is_cut_off_anywhere_is_not() {
        let (plain, packed) = (tar(), gzip(&tar()));
        for end in [0, 1, 600, 1024, plain.len() - 1] {
            assert!(check("a.tar", &plain[..end]).is_err(), "cut at {end}");
        }
        for end in 0..packed.len() {
            assert!(check("a.tgz", &packed[..end]).is_err(), "cut at {end}");
        }
        assert!(matches!(check("a.tgz", &gzip(&plain[..1024])), Err(WholeError::CutOff)));
    }

    #[test]
    fn a_damaged_archive_and_one_of_another_format_are_not_known_to_be_whole() {
        let mut packed = gzip(&tar());
        let middle = packed.len() / 2;
        packed[middle] ^= 0x55;
        assert!(matches!(check("a.tgz", &packed), Err(WholeError::Read { .. })));
        assert!(matches!(check("a.tar.xz", &tar()), Err(WholeError::UnknownFormat)));
    }
}
