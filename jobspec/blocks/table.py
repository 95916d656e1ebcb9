"""Every block and attribute of a job file, in one table.

A line is: name in the file, name in the API, kind. Lines stand in the API's order. Kinds:
    string bool int uint8 ... duration       a value, its zero where absent
    string? bool? int? ... duration?         null where absent
    strings                                  a list of strings or null
    map                                      a block of strings (`meta`): string to string
    map=                                     the same, or an attribute with an object
    object                                   an attribute with an object of strings
    lists                                    a block of lists of strings (`header`)
    free                                     a block of anything (`config`)
    one:NAME many:NAME                       a block, or repeated ones, of the table's NAME
    keyed:NAME                               repeated ones, an object by their label
    -                                        in the API only
A name of "-" is in the API only; a `*` after a kind means that the attribute is required.
`label` as kind: the block's label. A kind starting with `+` is put in by `normalize`.
"""

from __future__ import annotations

from typing import Any

_TABLE: dict[str, str] = {
    "job": """
        region Region string?
        namespace Namespace string?
        id ID string?
        name Name string?
        type Type string?
        priority Priority int?
        all_at_once AllAtOnce bool?
        datacenters Datacenters strings
        node_pool NodePool string?
        constraint Constraints many:constraint
        affinity Affinities many:affinity
        group TaskGroups many:group
        update Update one:update
        multiregion Multiregion one:multiregion
        spread Spreads many:spread
        periodic Periodic one:periodic
        parameterized ParameterizedJob one:parameterized
        reschedule Reschedule one:reschedule
        migrate Migrate one:migrate
        meta Meta map=
        ui UI one:ui
        - Stop null
        - ParentID null
        - Dispatched false
        - DispatchIdempotencyToken null
        - Payload null
        - ConsulNamespace null
        - VaultNamespace null
        - NomadTokenID null
        - Status null
        - StatusDescription null
        - Stable null
        - Version null
        - SubmitTime null
        - CreateIndex null
        - ModifyIndex null
        - JobModifyIndex null
        - VersionTag null
        task +Tasks many:task
        vault +Vault one:vault
        secret +Secrets many:secret
        """,
    "constraint": """
        attribute LTarget string
        value RTarget string
        operator Operand string
        """,
    "affinity": """
        attribute LTarget string
        value RTarget string
        operator Operand string
        weight Weight int8?
        """,
    "group": """
        label Name label
        count Count int?
        constraint Constraints many:constraint
        affinity Affinities many:affinity
        task Tasks many:task
        spread Spreads many:spread
        volume Volumes keyed:volume
        restart RestartPolicy one:restart
        disconnect Disconnect one:disconnect
        reschedule ReschedulePolicy one:reschedule
        ephemeral_disk EphemeralDisk one:ephemeral_disk
        update Update one:update
        migrate Migrate one:migrate
        network Networks many:network
        meta Meta map=
        service Services many:service
        shutdown_delay ShutdownDelay duration?
        max_run_duration MaxRunDuration duration?
        stop_after_client_disconnect StopAfterClientDisconnect duration?
        max_client_disconnect MaxClientDisconnect duration?
        scaling Scaling one:group_scaling
        consul Consul one:consul
        prevent_reschedule_on_lost PreventRescheduleOnLost bool?
        vault +Vault one:vault
        secret +Secrets many:secret
        """,
    "task": """
        label Name label
        driver Driver string
        user User string
        lifecycle Lifecycle one:lifecycle
        config Config free
        constraint Constraints many:constraint
        affinity Affinities many:affinity
        env Env map=
        service Services many:service
        resources Resources one:resources
        restart RestartPolicy one:restart
        meta Meta map=
        kill_timeout KillTimeout duration?
        logs LogConfig one:logs
        artifact Artifacts many:artifact
        vault Vault one:vault
        consul Consul one:consul
        template Templates many:template
        dispatch_payload DispatchPayload one:dispatch_payload
        volume_mount VolumeMounts many:volume_mount
        csi_plugin ~CSIPluginConfig one:csi_plugin
        leader Leader bool
        shutdown_delay ShutdownDelay duration
        kill_signal KillSignal string
        kind Kind string
        scaling ScalingPolicies many:task_scaling
        secret Secrets many:secret
        - Identity null
        identity Identities many:identity
        action Actions many:action
        schedule Schedule one:schedule
        """,
    "update": """
        stagger Stagger duration?
        max_parallel MaxParallel int?
        health_check HealthCheck string?
        min_healthy_time MinHealthyTime duration?
        healthy_deadline HealthyDeadline duration?
        progress_deadline ProgressDeadline duration?
        canary Canary int?
        auto_revert AutoRevert bool?
        auto_promote AutoPromote bool?
        """,
    "migrate": """
        max_parallel MaxParallel int?
        health_check HealthCheck string?
        min_healthy_time MinHealthyTime duration?
        healthy_deadline HealthyDeadline duration?
        """,
    "multiregion": """
        strategy Strategy one:multiregion_strategy
        region Regions many:multiregion_region
        """,
    "multiregion_strategy": """
        max_parallel MaxParallel int?
        on_failure OnFailure string?
        """,
    "multiregion_region": """
        label Name label
        count Count int?
        datacenters Datacenters strings
        node_pool NodePool string
        meta Meta map
        """,
    "spread": """
        attribute Attribute string
        weight Weight int8?
        target SpreadTarget many:spread_target
        """,
    "spread_target": """
        label Value label
        percent Percent uint8
        """,
    "periodic": """
        enabled Enabled bool?
        cron Spec string?
        crons Specs strings
        - SpecType null
        prohibit_overlap ProhibitOverlap bool?
        time_zone TimeZone string?
        """,
    "parameterized": """
        payload Payload string
        meta_required MetaRequired strings
        meta_optional MetaOptional strings
        """,
    "reschedule": """
        attempts Attempts int?
        interval Interval duration?
        delay Delay duration?
        delay_function DelayFunction string?
        max_delay MaxDelay duration?
        unlimited Unlimited bool?
        """,
    "ui": """
        description Description string
        link Links many:ui_link
        """,
    "ui_link": """
        label Label string
        url URL string
        """,
    "volume": """
        label Name label
        type Type string
        source Source string
        read_only ReadOnly bool
        sticky Sticky bool
        access_mode AccessMode string
        attachment_mode AttachmentMode string
        mount_options MountOptions one:mount_options
        per_alloc PerAlloc bool
        """,
    "mount_options": """
        fs_type FSType string
        mount_flags MountFlags strings
        """,
    "restart": """
        interval Interval duration?
        attempts Attempts int?
        delay Delay duration?
        mode Mode string?
        render_templates RenderTemplates bool?
        """,
    "disconnect": """
        lost_after LostAfter duration?
        stop_on_client_after StopOnClientAfter duration?
        replace Replace bool?
        reconcile Reconcile string?
        """,
    "ephemeral_disk": """
        sticky Sticky bool?
        migrate Migrate bool?
        size SizeMB int?
        """,
    "network": """
        mode Mode string
        device Device string
        cidr CIDR string
        ip IP string
        dns DNS one:dns
        reserved_ports ReservedPorts many:port
        port DynamicPorts many:port
        hostname Hostname string
        mbits MBits int?
        cni CNI one:cni
        """,
    "dns": """
        servers Servers strings
        searches Searches strings
        options Options strings
        """,
    "port": """
        label Label label
        static Value int
        to To int
        host_network HostNetwork string
        ignore_collision IgnoreCollision bool
        """,
    "cni": """
        args Args object
        """,
    "consul": """
        namespace Namespace string
        cluster Cluster string
        partition Partition string
        """,
    "group_scaling": """
        min Min int?
        max Max int?*
        policy Policy free
        enabled Enabled bool?
        type Type string
        - ID ""
        - Namespace ""
        - Target null
        - CreateIndex 0
        - ModifyIndex 0
        """,
    "task_scaling": """
        label - label
        min Min int?
        max Max int?
        policy Policy free
        enabled Enabled bool?
        type Type string
        - ID ""
        - Namespace ""
        - Target null
        - CreateIndex 0
        - ModifyIndex 0
        """,
    "service": """
        name Name string
        tags Tags strings
        canary_tags CanaryTags strings
        enable_tag_override EnableTagOverride bool
        port PortLabel string
        address_mode AddressMode string
        address Address string
        check Checks many:check
        check_restart CheckRestart one:check_restart
        connect Connect one:connect
        meta Meta map
        canary_meta CanaryMeta map
        tagged_addresses TaggedAddresses map
        task TaskName string
        on_update OnUpdate string
        identity Identity one:identity
        weights Weights one:weights
        provider Provider string
        cluster Cluster string
        kind Kind string
        """,
    "weights": """
        passing Passing int
        warning Warning int
        """,
    "check": """
        name Name string
        type Type string
        command Command string
        args Args strings
        path Path string
        protocol Protocol string
        port PortLabel string
        expose Expose bool
        address_mode AddressMode string
        advertise Advertise string
        interval Interval duration
        timeout Timeout duration
        initial_status InitialStatus string
        notes Notes string
        tls_server_name TLSServerName string
        tls_skip_verify TLSSkipVerify bool
        header Header lists
        method Method string
        check_restart CheckRestart one:check_restart
        grpc_service GRPCService string
        grpc_use_tls GRPCUseTLS bool
        task TaskName string
        success_before_passing SuccessBeforePassing int
        failures_before_critical FailuresBeforeCritical int
        failures_before_warning FailuresBeforeWarning int
        body Body string
        on_update OnUpdate string
        """,
    "check_restart": """
        limit Limit int
        grace Grace duration?
        ignore_warnings IgnoreWarnings bool
        """,
    "connect": """
        native Native bool
        gateway Gateway one:gateway
        sidecar_service SidecarService one:sidecar_service
        sidecar_task SidecarTask one:sidecar_task
        """,
    "sidecar_service": """
        tags Tags strings
        port Port string
        proxy Proxy one:proxy
        disable_default_tcp_check DisableDefaultTCPCheck bool
        meta Meta map
        """,
    "proxy": """
        local_service_address LocalServiceAddress string
        local_service_port LocalServicePort int
        expose Expose one:expose
        - ExposeConfig null
        upstreams Upstreams many:upstreams
        transparent_proxy TransparentProxy one:transparent_proxy
        config Config free
        """,
    "expose": """
        path Paths many:expose_path
        - Path null
        """,
    "expose_path": """
        path Path string
        protocol Protocol string
        local_path_port LocalPathPort int
        listener_port ListenerPort string
        """,
    "upstreams": """
        destination_name DestinationName string
        destination_namespace DestinationNamespace string
        destination_peer DestinationPeer string
        destination_partition DestinationPartition string
        destination_type DestinationType string
        local_bind_port LocalBindPort int
        datacenter Datacenter string
        local_bind_address LocalBindAddress string
        local_bind_socket_path LocalBindSocketPath string
        local_bind_socket_mode LocalBindSocketMode string
        mesh_gateway MeshGateway one:mesh_gateway
        config Config free
        """,
    "mesh_gateway": """
        mode Mode string
        """,
    "transparent_proxy": """
        uid UID string
        outbound_port OutboundPort uint16
        exclude_inbound_ports ExcludeInboundPorts strings
        exclude_outbound_ports ExcludeOutboundPorts uint16s
        exclude_outbound_cidrs ExcludeOutboundCIDRs strings
        exclude_uids ExcludeUIDs strings
        no_dns NoDNS bool
        """,
    "gateway": """
        proxy Proxy one:gateway_proxy
        ingress Ingress one:ingress
        terminating Terminating one:terminating
        mesh Mesh one:mesh
        """,
    "gateway_proxy": """
        connect_timeout ConnectTimeout duration?
        envoy_gateway_bind_tagged_addresses EnvoyGatewayBindTaggedAddresses bool
        envoy_gateway_bind_addresses EnvoyGatewayBindAddresses keyed:bind_address
        envoy_gateway_no_default_bind EnvoyGatewayNoDefaultBind bool
        envoy_dns_discovery_type EnvoyDNSDiscoveryType string
        config Config free
        """,
    "bind_address": """
        label Name label
        address Address string
        port Port int
        """,
    "ingress": """
        tls TLS one:gateway_tls
        listener Listeners many:listener
        """,
    "gateway_tls": """
        enabled Enabled bool
        tls_min_version TLSMinVersion string
        tls_max_version TLSMaxVersion string
        cipher_suites CipherSuites strings
        sds SDS one:sds
        """,
    "sds": """
        cluster_name ClusterName string
        cert_resource CertResource string
        """,
    "listener": """
        port Port int
        protocol Protocol string
        service Services many:ingress_service
        """,
    "ingress_service": """
        name Name string
        hosts Hosts strings
        tls TLS one:gateway_tls
        request_headers RequestHeaders one:header_modifiers
        response_headers ResponseHeaders one:header_modifiers
        max_connections MaxConnections uint32?
        max_pending_requests MaxPendingRequests uint32?
        max_concurrent_requests MaxConcurrentRequests uint32?
        """,
    "header_modifiers": """
        add Add map
        set Set map
        remove Remove strings
        """,
    "terminating": """
        service Services many:linked_service
        """,
    "linked_service": """
        name Name string
        ca_file CAFile string
        cert_file CertFile string
        key_file KeyFile string
        sni SNI string
        """,
    "mesh": "",
    "sidecar_task": """
        name Name string
        driver Driver string
        user User string
        config Config free
        env Env map
        resources Resources one:resources
        meta Meta map
        kill_timeout KillTimeout duration?
        logs LogConfig one:logs
        shutdown_delay ShutdownDelay duration?
        kill_signal KillSignal string
        volume_mount VolumeMounts many:volume_mount
        identity Identities many:identity
        """,
    "lifecycle": """
        hook Hook string*
        sidecar Sidecar bool
        """,
    "resources": """
        cpu CPU int?
        cores Cores int?
        memory MemoryMB int?
        memory_max MemoryMaxMB int?
        disk DiskMB int?
        network Networks many:network
        device Devices many:device
        numa NUMA one:numa
        secrets SecretsMB int?
        iops IOPS int?
        """,
    "device": """
        label Name label
        count Count uint64?
        constraint Constraints many:constraint
        affinity Affinities many:affinity
        """,
    "numa": """
        affinity Affinity string
        devices Devices strings
        """,
    "logs": """
        max_files MaxFiles int?
        max_file_size MaxFileSizeMB int?
        enabled Enabled bool?
        disabled Disabled bool?
        """,
    "artifact": """
        source GetterSource string?
        options GetterOptions map
        headers GetterHeaders map
        mode GetterMode string?
        insecure GetterInsecure bool?
        destination RelativeDest string?
        chown Chown bool
        """,
    "vault": """
        policies Policies strings
        role Role string
        namespace Namespace string?
        cluster Cluster string
        env Env bool?
        disable_file DisableFile bool?
        change_mode ChangeMode string?
        change_signal ChangeSignal string?
        allow_token_expiration AllowTokenExpiration bool?
        """,
    "template": """
        source SourcePath string?
        destination DestPath string?
        data EmbeddedTmpl string?
        change_mode ChangeMode string?
        change_script ChangeScript one:change_script
        change_signal ChangeSignal string?
        once Once bool?
        splay Splay duration?
        perms Perms string?
        uid Uid int?
        gid Gid int?
        left_delimiter LeftDelim string?
        right_delimiter RightDelim string?
        env Envvars bool?
        vault_grace VaultGrace duration?
        wait Wait one:wait
        error_on_missing_key ErrMissingKey bool?
        """,
    "change_script": """
        command Command string?
        args Args strings
        timeout Timeout duration?
        fail_on_error FailOnError bool?
        run_on_first_render RunOnFirstRender bool?
        """,
    "wait": """
        min Min duration?
        max Max duration?
        """,
    "dispatch_payload": """
        file File string
        """,
    "volume_mount": """
        volume Volume string?
        destination Destination string?
        read_only ReadOnly bool?
        propagation_mode PropagationMode string?
        selinux_label SELinuxLabel string?
        """,
    "csi_plugin": """
        id ID string
        type Type string
        mount_dir MountDir string
        stage_publish_base_dir StagePublishBaseDir string
        health_timeout HealthTimeout duration
        """,
    "identity": """
        name Name string
        aud Audience strings
        change_mode ChangeMode string
        change_signal ChangeSignal string
        env Env bool
        file File bool
        filepath Filepath string
        service_name ServiceName string
        ttl TTL duration
        extra_claims ExtraClaims strings
        """,
    "action": """
        label Name label
        command Command string*
        args Args strings
        """,
    "schedule": """
        cron Cron one:schedule_cron
        """,
    "schedule_cron": """
        start Start string
        end End string
        timezone Timezone string
        """,
    "secret": """
        label Name label
        provider Provider string
        path Path string
        config Config free
        env Env map
        """,
}

_LABELS = {"port": "", "task_scaling": "name", "spread_target": "value"}
_ZEROS: dict[str, Any] = {"null": None, "false": False, "0": 0, '""': ""}


class AttributeField:
    __slots__ = ("key", "kind", "nullable", "required")

    def __init__(self, key: str, kind: str, nullable: bool, required: bool) -> None:
        self.key = key
        self.kind = kind
        self.nullable = nullable
        self.required = required


class BlockField:
    """`how` is one, many, keyed, map, lists or free."""

    __slots__ = ("how", "key", "table")

    def __init__(self, key: str, how: str, table: BlockTable | None) -> None:
        self.key = key
        self.how = how
        self.table = table


class BlockTable:
    """The attributes and blocks of one kind of block, and what the API shows without them.

    `names` leads from an API key back to the name in the file, to find an item's place again.
    """

    __slots__ = (
        "attributes", "blocks", "empty", "label_key", "label_name", "name", "names", "required",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.empty: dict[str, Any] = {}
        self.attributes: dict[str, AttributeField] = {}
        self.blocks: dict[str, BlockField] = {}
        self.label_key: str | None = None
        self.label_name: str | None = None
        self.required: tuple[str, ...] = ()
        self.names: dict[str, str] = {}

    @property
    def known(self) -> list[str]:
        return [*self.attributes, *self.blocks]


def _build() -> dict[str, BlockTable]:
    tables = {name: BlockTable(name) for name in _TABLE}
    for name, lines in _TABLE.items():
        for line in lines.strip().splitlines():
            _add_line(tables, tables[name], *line.split())
    return tables


def _add_line(
    tables: dict[str, BlockTable], table: BlockTable, name: str, key: str, kind: str
) -> None:
    if name == "-":
        table.empty[key] = _ZEROS[kind]
        return
    if kind == "label":
        table.label_key, table.label_name = key, _LABELS.get(table.name, "name")
        if key != "-":
            table.empty[key] = ""
        return
    shown = key.lstrip("+~")
    table.names[shown] = name
    how, _, inner = kind.partition(":")
    if inner or how in ("map", "map=", "lists", "free"):
        table.blocks[name] = BlockField(shown, how.rstrip("="), tables.get(inner))
        if key == shown:
            table.empty[key] = None
        if how == "map=":
            table.attributes[name] = AttributeField(key, "map", True, False)
        return
    if kind == "object":
        table.attributes[name] = AttributeField(key, "map", True, False)
        table.empty[key] = None
        return
    required = kind.endswith("*")
    base = kind.rstrip("*")
    nullable = base.endswith("?") or base in ("strings", "uint16s")
    table.attributes[name] = AttributeField(key, base.rstrip("?"), nullable, required)
    table.empty[key] = None if nullable else {"string": "", "bool": False}.get(base, 0)
    if required:
        table.required += (name,)


TABLES = _build()
JOB = TABLES["job"]
