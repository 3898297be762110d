//! What C's `strsignal` calls the signals that end programs.

/// The text for a signal number of Linux.
pub(crate) fn describe(number: i32) -> String {
    let text = match number {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        other => return format!("Unknown signal {other}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_common_ones_have_names() {
        assert_eq!(super::describe(9), "Killed");
        assert_eq!(super::describe(77), "Unknown signal 77");
    }
}
