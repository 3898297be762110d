//! An instance of brokers on loopback, in a directory of its own: of the stand-in, or of the real
//! Flux that `FLUX_UNDER_TEST` names.

use flux_protocol::CurveCertificate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The deadline of every condition here.
const LIMIT: Duration = Duration::from_secs(30);

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

/// The real Flux to be tested in place of the stand-in.
fn real_flux() -> Option<PathBuf> {
    std::env::var_os("FLUX_UNDER_TEST").map(PathBuf::from)
}

/// Whether a test has to be skipped, for this reason, because it is about the stand-in itself.
pub(crate) fn skipped_with_real_flux(reason: &str) -> bool {
    if real_flux().is_some() {
        eprintln!("skipped with real Flux: {reason}");
    }
    real_flux().is_some()
}

/// A place with a `flux`, a certificate and a configuration for `a0`, `a1`...
pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) flux: PathBuf,
    pub(crate) port: u16,
}

impl Site {
    /// A site for `size` brokers with two cores each.
    pub(crate) fn new(size: u32) -> Self {
        let folder = tempfile::tempdir().expect("temporary directory");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let flux = real_flux().unwrap_or_else(|| folder.path().join("bin/flux"));
        let new = Self { folder, flux, port };
        std::fs::create_dir(new.path("bin")).expect("creates");
        // A symbolic link would lead back to the build, and the site's `flux` would not be found.
        let built = env!("CARGO_BIN_EXE_flux-stand-in");
        std::fs::create_dir_all(new.path("libexec/flux/cmd")).expect("creates");
        for program in ["bin/flux", "libexec/flux/cmd/flux-job"].map(|path| new.path(path)) {
            std::fs::hard_link(built, &program)
                .or_else(|_| std::fs::copy(built, &program).map(|_| ()))
                .expect("a flux");
        }
        new.certificate("curve.cert", [7; 32]);
        let last = size - 1;
        let ranks = if last == 0 { "0".to_owned() } else { format!("0-{last}") };
        let set = format!(
            r#"{{"version": 1, "execution": {{"starttime": 0, "expiration": 0, "nodelist": ["a[0-{last}]"],
                "R_lite": [{{"rank": "{ranks}", "children": {{"core": "0-1"}}}}]}}}}"#
        );
        let (certificate, set) = (new.text("curve.cert"), new.write("R", &set));
        let config = format!(
            "[bootstrap]\ncurve_cert = \"{certificate}\"\ndefault_port = {port}\n\
             default_bind = \"tcp://127.0.0.1:%p\"\ndefault_connect = \"tcp://127.0.0.1:%p\"\n\
             hosts = [{{ host = \"a[0-{last}]\" }}]\n\
             [resource]\nnoverify = true\npath = \"{set}\"\n"
        );
        new.write("broker.toml", &config);
        new
    }

    pub(crate) fn certificate(&self, name: &str, secret: [u8; 32]) {
        let certificate = CurveCertificate::new("test", secret).expect("a certificate");
        self.write(name, certificate.to_text().expose());
        self.set_mode(name, 0o600);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).expect("writes");
        self.text(name)
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).expect("chmod");
    }

    /// Reads a file; an absent one is empty.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.flux);
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("LC_ALL", "C.UTF-8");
        for name in ["FLUX_URI", "FLUX_CONF_DIR", "FLUX_ENCLOSING_ID", "SHELL"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn ask(&self, rank: u32, words: &[&str]) -> Answer {
        answer(self.question(rank, words))
    }

    /// Runs a command that has to succeed, and returns its output.
    pub(crate) fn ok(&self, rank: u32, words: &[&str]) -> String {
        let answer = self.ask(rank, words);
        assert_eq!(answer.code, Some(0), "{words:?}: {answer:?}");
        answer.out
    }

    /// A `flux` command that talks to a broker, not started yet.
    pub(crate) fn question(&self, rank: u32, words: &[&str]) -> Command {
        let uri = format!("local://{}", self.text(&format!("run{rank}/local-{rank}")));
        let mut command = self.command(words);
        command.env("FLUX_URI", uri);
        command
    }

    /// A command for a broker, with the site's configuration.
    pub(crate) fn broker(&self, command: &str, rank: u32, more: &[&str]) -> Command {
        let own = [
            format!("-c{}", self.text("broker.toml")),
            format!("-Shostname=a{rank}"),
            format!("-Srundir={}", self.text(&format!("run{rank}"))),
            format!("-Sstatedir={}", self.text(&format!("state{rank}"))),
        ];
        let options = ["-Slog-stderr-mode=local", "-Slog-stderr-level=6", "-Sbroker.rc2_none"];
        let mut command = self.command(&[command]);
        command.args(own).args(options).args(more);
        command
    }

    /// Starts a broker; its output goes to `RANK.out` and `RANK.err`.
    pub(crate) fn start(&self, rank: u32, more: &[&str]) -> Broker {
        self.spawn(self.broker("start", rank, more), rank)
    }

    /// A site whose one broker runs.
    pub(crate) fn one() -> (Self, Broker) {
        let site = Self::new(1);
        let lead = site.start(0, &[]);
        site.wait_for_log(0, "quorum->run");
        (site, lead)
    }

    pub(crate) fn two() -> (Self, [Broker; 2]) {
        let site = Self::new(2);
        let brokers = [site.start(0, &[]), site.start(1, &[])];
        site.wait_for_log(1, "quorum->run");
        (site, brokers)
    }

    pub(crate) fn spawn(&self, mut command: Command, rank: u32) -> Broker {
        let file = |suffix: &str| {
            std::fs::File::create(self.path(&format!("{rank}.{suffix}"))).expect("creates")
        };
        let child = command.stdout(file("out")).stderr(file("err")).spawn().expect("starts");
        Broker(child)
    }

    pub(crate) fn wait_for_log(&self, rank: u32, text: &str) {
        wait_for(&format!("{text:?} in the log of rank {rank}"), || {
            self.read(&format!("{rank}.err")).contains(text).then_some(())
        });
    }
}

/// A running broker, or a client of one; it is killed when this is dropped.
pub(crate) struct Broker(pub(crate) Child);

impl Broker {
    pub(crate) fn code(&mut self) -> Option<i32> {
        wait_for("the end of a broker", || self.0.try_wait().expect("waits")).code()
    }

    pub(crate) fn runs(&mut self) -> bool {
        self.0.try_wait().expect("waits").is_none()
    }

    /// Asks it to end, and returns its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let process = i32::try_from(self.0.id()).expect("a process id");
        kill(Pid::from_raw(process), Signal::SIGTERM).expect("signals");
        self.code()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn answer(mut command: Command) -> Answer {
    let Output { status, stdout, stderr } = command.output().expect("runs");
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Answer { code: status.code(), out, err }
}
