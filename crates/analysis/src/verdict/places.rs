//! Where a process runs as administrators know it: the systemd unit and the container, both told by
//! the path of its control group.

/// Digits that identify a container, as `docker ps`, `podman ps` and `crictl ps` show them.
const SHOWN: usize = 12;
/// Of a container's whole id.
const DIGITS: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    pub unit: Option<String>,
    pub container: Option<String>,
}

impl Place {
    pub fn of(cgroup: &str) -> Place {
        let parts = || cgroup.split('/').rev();
        let unit = parts().find(|part| part.len() > ".service".len() && part.ends_with(".service"));
        Place { unit: unit.map(str::to_owned), container: parts().find_map(container) }
    }
}

/// `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`, `ID`: container engines differ
/// in what they write around the id. LXC's containers have names.
fn container(part: &str) -> Option<String> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(name.to_owned());
    }
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // `cri-containerd:ID` where the path is of the form SLICE:PREFIX:ID.
    let id = part.rsplit(['-', ':']).next()?;
    let is_id = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id[..SHOWN].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f2a9c0e1b7d4f2a9c0e1b7d4f2a9c0e1b7d4f2a9c0e1b7d4f2a9c0e1b7d0123";

    fn place(unit: Option<&str>, container: Option<&str>) -> Place {
        Place { unit: unit.map(str::to_owned), container: container.map(str::to_owned) }
    }

    #[test]
    fn the_innermost_service_is_the_unit() {
        assert_eq!(Place::of("/system.slice/postgresql@15-main.service"), place(Some("postgresql@15-main.service"), None));
        let user = "/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service/workers";
        assert_eq!(Place::of(user), place(Some("shop.service"), None));
        for none in ["/", "", "/user.slice/user-0.slice/session-3.scope", "/.service", "/memory/abc"] {
            assert_eq!(Place::of(none), Place::default(), "{none}");
        }
    }

    #[test]
    fn a_container_is_known_by_its_id_whatever_stands_around_it() {
        for path in [
            format!("/system.slice/docker-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods/besteffort/pod1/{ID}"),
            format!("/system.slice:cri-containerd:{ID}"),
        ] {
            assert_eq!(Place::of(&path), place(None, Some("4f2a9c0e1b7d")), "{path}");
        }
        assert_eq!(Place::of("/lxc.payload.web/system.slice/nginx.service"), place(Some("nginx.service"), Some("web")));
        assert_eq!(Place::of(&format!("/docker/{}x", &ID[..63])), Place::default());
    }
}
