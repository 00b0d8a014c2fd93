//! The place of a process as administrators know it: systemd unit and container, both derived from
//! the path of its control group.

/// Number of digits of a container's id that `docker ps`, `podman ps` and `crictl ps` show.
const SHOWN: usize = 12;
/// Number of digits of a container's whole id.
const DIGITS: usize = 64;

/// The systemd unit and the container of a process, if it has any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServicePlace {
    pub unit: Option<String>,
    pub container: Option<String>,
}

impl ServicePlace {
    /// Derives the place from the path of a control group.
    pub fn of(cgroup: &str) -> ServicePlace {
        let parts = || cgroup.split('/').rev();
        let unit = parts().find(|part| part.len() > ".service".len() && part.ends_with(".service"));
        ServicePlace { unit: unit.map(str::to_owned), container: parts().find_map(container) }
    }
}

/// Returns the container of a path component: `docker-ID.scope`, `libpod-ID.scope`,
/// `cri-containerd-ID.scope`, or `ID`. Container engines differ in what they write around the id.
/// LXC containers have names.
fn container(part: &str) -> Option<String> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(name.to_owned());
    }
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // `cri-containerd:ID` occurs in paths of the form SLICE:PREFIX:ID.
    let id = part.rsplit(['-', ':']).next()?;
    let is_id = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id[..SHOWN].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f2a9c0e1b7d4f2a9c0e1b7d4f2a9c0e1b7d4f2a9c0e1b7d4f2a9c0e1b7d0123";

    fn place(unit: Option<&str>, container: Option<&str>) -> ServicePlace {
        ServicePlace { unit: unit.map(str::to_owned), container: container.map(str::to_owned) }
    }

    #[test]
    fn the_innermost_service_is_the_unit() {
        assert_eq!(ServicePlace::of("/system.slice/postgresql@15-main.service"), place(Some("postgresql@15-main.service"), None));
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service/workers";
        assert_eq!(ServicePlace::of(user), place(Some("shop.service"), None));
        for none in ["/", "", "/user.slice/user-0.slice/session-3.scope", "/.service", "/memory/abc"] {
            assert_eq!(ServicePlace::of(none), ServicePlace::default(), "{none}");
        }
    }

    #[test]
    fn a_container_is_identified_by_its_id_with_any_prefix_and_suffix() {
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods/besteffort/pod1/{ID}"),
            format!("/system.slice:cri-containerd:{ID}"),
        ] {
            assert_eq!(ServicePlace::of(&path), place(None, Some("4f2a9c0e1b7d")), "{path}");
        }
        assert_eq!(ServicePlace::of("/lxc.payload.web/system.slice/nginx.service"), place(Some("nginx.service"), Some("web")));
        assert_eq!(ServicePlace::of(&format!("/docker/{}x", &ID[..63])), ServicePlace::default());
    }
}
