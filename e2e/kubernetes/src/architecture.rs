//! The processor architectures that the project is built for.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Architecture {
    /// Its name in the kernel.
    pub name: &'static str,
    /// Its name in Go, images, Kubernetes and Debian.
    pub image_name: &'static str,
    /// Its target of Rust, with the system and its C library.
    pub target: &'static str,
    /// Where the dynamic loader of its C library is (System V ABI supplements; glibc).
    pub loader: &'static str,
    /// Debian's packages that link programs for it on a machine of another architecture.
    pub cross_packages: [&'static str; 2],
}

impl Architecture {
    pub const ALL: [Self; 2] = [
        Self {
            name: "x86_64",
            image_name: "amd64",
            target: "x86_64-unknown-linux-gnu",
            loader: "/lib64/ld-linux-x86-64.so.2",
            cross_packages: ["gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"],
        },
        Self {
            name: "aarch64",
            image_name: "arm64",
            target: "aarch64-unknown-linux-gnu",
            loader: "/lib/ld-linux-aarch64.so.1",
            cross_packages: ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
        },
    ];

    /// The architecture of this machine, if the project is built for it.
    pub fn of_this_machine() -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name == std::env::consts::ARCH)
    }

    /// The program that runs programs of it on a machine of another architecture.
    pub fn emulator(self) -> String {
        format!("qemu-{}-static", self.name)
    }
}
