//! The processor architectures that the project is built for.

/// A processor architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture of this machine, if the project is built for it.
    pub fn of_this_machine() -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == std::env::consts::ARCH)
    }

    /// The name of this machine's architecture in Go, images and Debian.
    pub(crate) fn image_name_of_this_machine() -> &'static str {
        Self::of_this_machine().map_or(std::env::consts::ARCH, Self::image_name)
    }

    /// Its name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Its name in Go, and in images and Kubernetes.
    pub fn image_name(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Its target of Rust, with the system and its C library.
    pub fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Where the dynamic loader of its C library is (System V ABI supplements; glibc).
    pub fn loader(self) -> &'static str {
        match self {
            Self::X86_64 => "/lib64/ld-linux-x86-64.so.2",
            Self::Aarch64 => "/lib/ld-linux-aarch64.so.1",
        }
    }

    /// Debian's packages that link programs for it on a machine of another architecture.
    pub fn cross_packages(self) -> [&'static str; 2] {
        match self {
            Self::X86_64 => ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
            Self::Aarch64 => ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        }
    }

    /// The program that runs programs of it on a machine of another architecture.
    pub fn emulator(self) -> String {
        format!("qemu-{}-static", self.name())
    }
}
