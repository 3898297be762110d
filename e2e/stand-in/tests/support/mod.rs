//! An instance of stand-in brokers on loopback, in a directory of its own.

// Each test binary uses its own part of this.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// Looks until `look` finds something.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "gave up waiting for {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A place with a `flux`, a certificate and a configuration for `a0`, `a1`...
pub(crate) struct Site {
    folder: tempfile::TempDir,
    /// Port of the lead.
    pub(crate) port: u16,
}

impl Site {
    /// A site for `size` brokers with two cores each.
    pub(crate) fn new(size: u32) -> Self {
        let folder = tempfile::tempdir().expect("temporary directory");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let new = Self { folder, port };
        std::fs::create_dir(new.path("bin")).expect("creates");
        symlink_copy(Path::new(env!("CARGO_BIN_EXE_flux-stand-in")), &new.path("bin/flux"));
        assert!(new.flux(&["keygen", "--name=test", &new.text("curve.cert")]).status.success());
        new.write("broker.toml", &new.config(size, ""));
        new
    }

    /// The configuration's text, with `extra` keys in `[bootstrap]`.
    pub(crate) fn config(&self, size: u32, extra: &str) -> String {
        let (certificate, port, last) = (self.text("curve.cert"), self.port, size - 1);
        format!(
            r#"[bootstrap]
curve_cert = "{certificate}"
default_port = {port}
default_bind = "tcp://lo:%p"
default_connect = "tcp://127.0.0.1:%p"
hosts = [{{ host = "a[0-{last}]" }}]
{extra}
[resource]
noverify = true
[[resource.config]]
hosts = "a[0-{last}]"
cores = "0-1"
"#
        )
    }

    /// A path in the site.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the site, as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("writes");
        self.text(name)
    }

    /// Writes an executable file.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.write(name, text);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("chmod");
        path
    }

    /// Reads a file; an absent one is empty.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A `flux` command, not started yet.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/flux"));
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("LC_ALL", "C.UTF-8");
        for name in ["FLUX_URI", "FLUX_CONF_DIR", "FLUX_ENCLOSING_ID", "SHELL"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a `flux` command to its end.
    pub(crate) fn flux(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("runs")
    }

    /// Runs a `flux` command that talks to a broker.
    pub(crate) fn ask(&self, rank: u32, words: &[&str]) -> Output {
        self.question(rank, words).output().expect("runs")
    }

    /// A `flux` command that talks to a broker, not started yet.
    pub(crate) fn question(&self, rank: u32, words: &[&str]) -> Command {
        let uri = format!("local://{}", self.text(&format!("run{rank}/local-{rank}")));
        let mut command = self.command(words);
        command.env("FLUX_URI", uri);
        command
    }

    /// Runs a `flux` command that talks to a broker, as another user.
    pub(crate) fn ask_as(&self, user: u32, rank: u32, words: &[&str]) -> Output {
        self.question(rank, words).uid(user).output().expect("runs")
    }

    /// Lets other users into the site and into the directories a broker makes there.
    pub(crate) fn open_to_everyone(&self) {
        let open = |name: &str| {
            std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o777))
                .expect("chmod");
        };
        open(".");
        for name in ["run0", "state"] {
            std::fs::create_dir(self.path(name)).expect("creates");
            open(name);
        }
    }

    /// Broker words for a rank, with the site's configuration.
    pub(crate) fn words(&self, command: &str, rank: u32, more: &[&str]) -> Vec<String> {
        let mut words = vec![
            command.to_owned(),
            format!("-c{}", self.text("broker.toml")),
            format!("-Shostname=a{rank}"),
            format!("-Srundir={}", self.text(&format!("run{rank}"))),
            "-Slog-stderr-mode=local".to_owned(),
            "-Slog-stderr-level=6".to_owned(),
        ];
        if rank == 0 {
            words.push(format!("-Sstatedir={}", self.text("state")));
        }
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Starts a broker; its output goes to `RANK.out` and `RANK.err`.
    pub(crate) fn start(&self, rank: u32, more: &[&str]) -> Broker {
        let words = self.words("start", rank, more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.spawn(self.command(&words), rank)
    }

    /// Starts a prepared command as a broker.
    pub(crate) fn spawn(&self, mut command: Command, rank: u32) -> Broker {
        let file = |suffix: &str| {
            std::fs::File::create(self.path(&format!("{rank}.{suffix}"))).expect("creates")
        };
        let child = command.stdout(file("out")).stderr(file("err")).spawn().expect("starts");
        Broker { child }
    }

    /// Waits until a broker's log holds a text.
    pub(crate) fn wait_for_log(&self, rank: u32, text: &str) {
        wait_for(&format!("{text:?} in the log of rank {rank}"), || {
            self.read(&format!("{rank}.err")).contains(text).then_some(())
        });
    }

    /// Runs a broker that is refused, and returns its exit code and standard error.
    pub(crate) fn refusal(&self, rank: u32, more: &[&str]) -> (Option<i32>, String) {
        let words = self.words("broker", rank, more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = self.flux(&words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// A copy that the broker's own path resolves to; a link would lead back to the build directory.
fn symlink_copy(from: &Path, to: &Path) {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).expect("copies");
    }
}

/// Makes `name` in the site's `bin` another name of the stand-in or of a system program.
pub(crate) fn provide(site: &Site, name: &str, target: &str) {
    symlink(target, site.path(&format!("bin/{name}"))).expect("links");
}

/// A running broker; it is killed when forgotten.
pub(crate) struct Broker {
    child: Child,
}

impl Broker {
    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        wait_for("the end of a broker", || self.child.try_wait().expect("waits"))
    }

    /// Waits for its end and returns its exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.end().code()
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("waits").is_none()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let process = i32::try_from(self.child.id()).expect("a process id");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), signal).expect("signals");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
