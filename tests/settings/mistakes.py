"""Mistakes in dev.toml, at least one for each rule."""

from __future__ import annotations

from tests.settings.question_answering_mistakes import QUESTION_ANSWERING
from tests.settings.text_encoding_mistakes import TEXT_ENCODING

SUBNETS = [f"subnet-0123456789abcdef{number}" for number in range(3)]
VPC = {
    "vpc_id": "vpc-0123456789abcdef0",
    "cidr": "10.0.0.0/16",
    "private_subnet_ids": SUBNETS,
}
SKIP = {"training.mode": "skip", "training.weights_uri": "s3://weights/roberta/"}
RESERVED = {"training.capacity_reservation_id": "cr-0123456789abcdef0", "training.zones": ["us-west-2b"]}
ENDPOINT = "sentiment.endpoint"
UPDATE = f"{ENDPOINT}.update"
VERSION = "0123456789abcdef"
TWO = {f"{ENDPOINT}.min_instances": 2, f"{ENDPOINT}.initial_instances": 2}
CANARY: dict[str, object] = {**TWO, f"{UPDATE}.traffic": "canary", f"{UPDATE}.step_percent": 50}
LINEAR: dict[str, object] = {**TWO, f"{UPDATE}.traffic": "linear", f"{UPDATE}.step_percent": 10}


def challenger(**changes: object) -> dict[str, object]:
    """Settings with one challenger."""
    return {f"{ENDPOINT}.challengers": [{"name": "next", "version": VERSION, "weight": 0.1, **changes}]}


# {mistake: (changes of dev.toml, key, words of the reason, words of what would be right)}
MISTAKES: dict[str, tuple[dict[str, object], str, str, str]] = {
    "unknown key": ({"training.learning_rat": 1.0}, "training.learning_rat", "no such setting", "learning_rate"),
    "unknown section": ({"trainin": {"mode": "job"}}, "trainin", "no such setting", "training"),
    "unknown key far from any": ({"logs.xyz": 1}, "logs.xyz", "no such setting", "one of: retention_days"),
    "section as value": ({"training": 3}, "training", "no section", "[training]"),
    "missing section": ({"network": None}, "network", "missing", "[network]"),
    "missing key": ({"deployment.owner": None}, "deployment.owner", "missing", "a team"),
    "other schema": ({"schema_version": 2}, "schema_version", "1", "1"),
    "negative size": ({"training.root_volume_gib": -1}, "training.root_volume_gib", "or equal to 8", "GiB"),
    "text as number": ({"training.epochs": "3"}, "training.epochs", "integer", "whole number"),
    "boolean as number": ({"training.epochs": True}, "training.epochs", "integer", "whole number"),
    "number as boolean": ({"training.bf16": 1}, "training.bf16", "boolean", "true or false"),
    "number as text": ({"deployment.owner": 3}, "deployment.owner", "string", "a team"),
    "name": ({"deployment.name": "Dev_1"}, "deployment.name", "another form", "lower-case"),
    "account": ({"deployment.account": "123"}, "deployment.account", "another form", "12 digits"),
    "region": ({"deployment.region": "us-west-3"}, "deployment.region", "list of regions", "us-west-2, or"),
    "region of China": ({"deployment.region": "cn-north-1"}, "deployment.region", "another AWS partition", "us-east-1"),
    "GovCloud": ({"deployment.region": "us-gov-west-1"}, "deployment.region", "another AWS partition", "us-west-2"),
    "region without the image": ({"deployment.region": "af-south-1"}, "deployment.region", "base images", "ap-south-1"),
    "zone": ({"network.zones": ["us-west-2a", "us-west-2x"]}, "network.zones", "no zone of us-west-2", "us-west-2a"),
    "zone twice": ({"network.zones": ["us-west-2a", "us-west-2a"]}, "network.zones", "twice", "each zone once"),
    "one zone": ({"network.zones": ["us-west-2a"]}, "network.zones", "at least 2", "two or more"),
    "egress": ({"network.egress": "proxy"}, "network.egress", "'nat' or 'endpoints'", '"nat"'),
    "range": ({"network.cidr": "10.300.0.0/16"}, "network.cidr", "300", "10.42.0.0/16"),
    "range with host bits": ({"network.cidr": "10.42.1.0/16"}, "network.cidr", "range starts", "10.42.0.0/16"),
    "public range": ({"network.cidr": "8.8.0.0/16"}, "network.cidr", "internet", "private"),
    "small range": ({"network.cidr": "10.0.0.0/28"}, "network.cidr", "too large or too small", "/16 to /24"),
    "existing range": (
        {"network.existing_vpc": {**VPC, "cidr": "1.2.3/99"}}, "network.existing_vpc.cidr", "1.2.3", "10.42.0.0/16",
    ),
    "subnet per zone": (
        {"network.existing_vpc": {**VPC, "private_subnet_ids": SUBNETS[:2]}},
        "network.existing_vpc.private_subnet_ids", "3 zones and 2 subnets", "one private subnet per zone",
    ),
    "subnet twice": (
        {"network.existing_vpc": {**VPC, "private_subnet_ids": SUBNETS[:1] * 3}},
        "network.existing_vpc.private_subnet_ids", "twice", "each subnet once",
    ),
    "no VPC": ({"network.existing_vpc": {**VPC, "vpc_id": "default"}}, "network.existing_vpc.vpc_id", "form", "vpc-"),
    "retention": ({"logs.retention_days": 10}, "logs.retention_days", "does not know", "7"),
    "budget without address": ({"budget.monthly_usd": 5}, "budget.email", "tells nobody", "mail address"),
    "training type": ({"training.instance_type": "p4d.24xlarg"}, "training.instance_type", "catalogue", "p4d.24xlarge"),
    "idle time": ({"training.idle_stop_minutes": 7}, "training.idle_stop_minutes", "multiple of 5", "0 (never)"),
    "idle time of days": ({"training.idle_stop_minutes": 2000}, "training.idle_stop_minutes", "1440", "0 (never)"),
    "CPU target": (
        {f"{ENDPOINT}.cpu_utilization_target_percent": 95}, f"{ENDPOINT}.cpu_utilization_target_percent", "90",
        "10 to 90",
    ),
    "client errors": (
        {f"{ENDPOINT}.client_error_percent_alarm": 0}, f"{ENDPOINT}.client_error_percent_alarm", "1", "1 to 100",
    ),
    "training type without a GPU": ({"training.instance_type": "inf2.xlarge"}, "training.instance_type", "GPU", ""),
    "training on SageMaker": ({"training.instance_type": "ml.g5.xlarge"}, "training.instance_type", "EC2", "g5.xlarge"),
    "training zone": ({"training.zones": ["us-west-2d"]}, "training.zones", "no subnet", "us-west-2a"),
    "root volume": ({"training.root_volume_gib": 100}, "training.root_volume_gib", "do not fit", "200 or more"),
    "budget without amount": ({"budget.email": "a@example.com"}, "budget.monthly_usd", "no budget", "US dollars"),
    "deadline too short": ({"training.deadline_minutes": 3}, "training.deadline_minutes", "equal to 5", "5 to 660"),
    "the whole repository": ({"training.data": "."}, "training.data", "whole repository", "nothing but"),
    "a folder above it": ({"training.base_model": ".."}, "training.base_model", "whole repository", "nothing but"),
    "deadline": ({"training.deadline_minutes": 700}, "training.deadline_minutes", "12 hours", "660 or less"),
    "learning rate": ({"training.learning_rate": 0}, "training.learning_rate", "greater than 0", "1e-5"),
    "mode": ({"training.mode": "spot"}, "training.mode", "'job'", '"skip"'),
    "skip without weights": ({"training.mode": "skip"}, "training.weights_uri", "trains nothing", "s3://"),
    "weights in mode job": ({"training.weights_uri": "s3://bucket/x/"}, "training.weights_uri", "its own", '"skip"'),
    "weights that are no prefix": ({**SKIP, "training.weights_uri": "s3://b/x"}, "training.weights_uri", "form", "s3://"),
    "no model": ({"training.base_model": None}, "training.base_model", "needs it", "hf://"),
    "no data": ({"training.data": None}, "training.data", "needs it", "hf://"),
    "no image": ({"training.ami_parameter": None}, "training.ami_id", "exactly one", "either"),
    "two images": ({"training.ami_id": "ami-0123456789abcdef0"}, "training.ami_id", "exactly one", "either"),
    "block without reservation": (
        {"training.purchase": "capacity-block"}, "training.capacity_reservation_id", "bought beforehand", "cr-",
    ),
    "spot in a reservation": (
        {**RESERVED, "training.purchase": "spot"},
        "training.capacity_reservation_id", "do not run in a reservation", "on-demand",
    ),
    "block of a type that has none": (
        {**RESERVED, "training.purchase": "capacity-block", "training.instance_type": "g5.xlarge"},
        "training.instance_type", "no capacity blocks", "p4d.24xlarge",
    ),
    "reservation in any zone": (
        {"training.capacity_reservation_id": "cr-0123456789abcdef0"},
        "training.zones", "lies in one zone", "one of us-west-2a",
    ),
    "reservation in two zones": (
        {**RESERVED, "training.zones": ["us-west-2a", "us-west-2b"]}, "training.zones", "lies in one zone", "alone",
    ),
    "box on spot": (
        {"training.purchase": "spot", "training.mode": "interactive"}, "training.purchase", "disappears", "on-demand",
    ),
    "unpinned model": ({"training.base_model": "hf://roberta/base"}, "training.base_model", "", "<commit id>"),
    "other scheme": ({"training.data": "ftp://host/x"}, "training.data", "", "s3://bucket/prefix/"),
    "no folder": ({"training.data": "no/such/folder"}, "training.data", "no such folder", "existing folder"),
    "no folder with a long name": ({"training.data": "x" * 5000}, "training.data", "no such folder", "existing"),
    "the demo's folder": ({"training.data": "build/demo/nothing"}, "training.data", "no such folder", "make demo"),
    "endpoint without training": ({"training": None}, "training", "[training]", "skip"),
    "min over max": (
        {f"{ENDPOINT}.min_instances": 3, f"{ENDPOINT}.initial_instances": 3}, f"{ENDPOINT}.max_instances",
        "min_instances is 3", "3 or more",
    ),
    "initial outside": ({f"{ENDPOINT}.initial_instances": 5}, f"{ENDPOINT}.initial_instances", "limits", "1 to 2"),
    "scale to zero": ({f"{ENDPOINT}.min_instances": 0}, f"{ENDPOINT}.min_instances", "equal to 1", "scale to zero"),
    "x86 type for the arm64 image": (
        {f"{ENDPOINT}.instance_type": "ml.g5.4xlarge"}, f"{ENDPOINT}.instance_type", "exec format", "ml.c7g.4xlarge",
    ),
    "type without ml.": (
        {f"{ENDPOINT}.instance_type": "c7g.4xlarge"}, f"{ENDPOINT}.instance_type", "begin with ml.", "ml.c7g.4xlarge",
    ),
    "unknown type": (
        {f"{ENDPOINT}.instance_type": "ml.c7g.4xlrge"}, f"{ENDPOINT}.instance_type", "catalogue", "ml.c7g.4xlarge",
    ),
    "key on local disks": (
        {f"{ENDPOINT}.instance_type": "ml.c6gd.4xlarge"}, f"{ENDPOINT}.kms", "NVMe", "false",
    ),
    "batch of none": ({f"{ENDPOINT}.batch_size": 0}, f"{ENDPOINT}.batch_size", "equal to 1", "1 to 64"),
    "batch of too many texts": (
        {f"{ENDPOINT}.batch_size": 17}, f"{ENDPOINT}.batch_size", "1088 texts", "1 to 16",
    ),
    "delay beyond the alarm": (
        {f"{ENDPOINT}.batch_size": 2, f"{ENDPOINT}.latency_p99_ms_alarm": 20},
        f"{ENDPOINT}.max_batch_delay_ms", "rings at 20 ms", "below 20",
    ),
    "no delay": ({f"{ENDPOINT}.max_batch_delay_ms": 0}, f"{ENDPOINT}.max_batch_delay_ms", "equal to 1", "1 to 1000"),
    "timeout beyond SageMaker's": (
        {f"{ENDPOINT}.response_timeout_seconds": 61}, f"{ENDPOINT}.response_timeout_seconds", "equal to 60", "1 to 60",
    ),
    "bf16": ({f"{ENDPOINT}.bf16": "yes"}, f"{ENDPOINT}.bf16", "bool", "true"),
    "workers": ({f"{ENDPOINT}.workers": 17}, f"{ENDPOINT}.workers", "16 vCPUs", "1 to 16"),
    "infinite": (
        {f"{ENDPOINT}.invocations_per_instance": float("inf")}, f"{ENDPOINT}.invocations_per_instance", "finite", "",
    ),
    "skip with weights and a version": (
        {**SKIP, "sentiment.version": VERSION}, "training.weights_uri", f"serve {VERSION}", "one of the two",
    ),
    "version": ({"sentiment.version": "latest"}, "sentiment.version", "another form", "16 digits"),
    "canary of one": (
        {f"{UPDATE}.traffic": "canary", f"{UPDATE}.step_percent": 50},
        f"{ENDPOINT}.min_instances", "half of a variant's instances", "2 or more",
    ),
    "canary with a challenger of one": (
        {**CANARY, **challenger()}, f"{ENDPOINT}.challengers[0].min_instances", "scaled in", "2 or more",
    ),
    "large canary": ({**CANARY, f"{UPDATE}.step_percent": 60}, f"{UPDATE}.step_percent", "equal to 50", "1 to 50"),
    "canary of no size": (
        {**TWO, f"{UPDATE}.traffic": "canary"}, f"{UPDATE}.step_percent", "how much", "1 to 50 percent",
    ),
    "small linear steps": (
        {**LINEAR, f"{UPDATE}.step_percent": 5}, f"{UPDATE}.step_percent", "how much", "10 to 50 percent",
    ),
    "parts of everything at once": (
        {f"{UPDATE}.step_percent": 20}, f"{UPDATE}.step_percent", "at once", "canary",
    ),
    "long bake": ({f"{UPDATE}.bake_seconds": 3601}, f"{UPDATE}.bake_seconds", "equal to 3600", "0 to 3600"),
    "ten long bakes": (
        {**LINEAR, f"{UPDATE}.bake_seconds": 2521}, f"{UPDATE}.bake_seconds", "10 parts", "2520 or less",
    ),
    "capture of nothing": (
        {f"{ENDPOINT}.data_capture": {"sampling_percent": 0}}, f"{ENDPOINT}.data_capture.sampling_percent",
        "equal to 1", "1 to 100",
    ),
    "challenger without a version": (
        {f"{ENDPOINT}.challengers": [{"name": "next", "weight": 1}]}, f"{ENDPOINT}.challengers[0].version",
        "missing", "16 digits",
    ),
    "challenger with an unknown key": (
        challenger(wieght=1), f"{ENDPOINT}.challengers[0].wieght", "no such setting", "weight",
    ),
    "challengers that are no sections": ({f"{ENDPOINT}.challengers": ["next"]}, f"{ENDPOINT}.challengers", "", "[["),
    "challenger's name": (challenger(name="a_b"), f"{ENDPOINT}.challengers[0].name", "another form", "letters"),
    "challenger with the main variant's name": (
        challenger(name="AllTraffic"), f"{ENDPOINT}.challengers[0].name", "Another variant", "of its own",
    ),
    "challengers of one name": (
        {f"{ENDPOINT}.challengers": [{"name": "next", "version": VERSION, "weight": 1}] * 2},
        f"{ENDPOINT}.challengers[1].name", "Another variant", "of its own",
    ),
    "too many challengers": (
        {f"{ENDPOINT}.challengers": [
            {"name": f"next{number}", "version": VERSION, "weight": 1} for number in range(5)
        ]},
        f"{ENDPOINT}.challengers", "at most 4", "4 at most",
    ),
    "challenger outside its limits": (
        challenger(initial_instances=2), f"{ENDPOINT}.challengers[0].initial_instances", "limits", "1 to 1",
    ),
    "challenger on x86": (
        challenger(instance_type="ml.g5.xlarge"), f"{ENDPOINT}.challengers[0].instance_type", "exec format",
        "ml.c7g.xlarge",
    ),
    "challenger on local disks": (challenger(instance_type="ml.c6gd.4xlarge"), f"{ENDPOINT}.kms", "NVMe", "false"),
    "more workers than a challenger's vCPUs": (
        challenger(instance_type="ml.c7g.large"), f"{ENDPOINT}.workers", "2 vCPUs", "1 to 2",
    ),
    **TEXT_ENCODING,
    **QUESTION_ANSWERING,
}  # fmt: skip
