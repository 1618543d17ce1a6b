"""What the container's own entry point does when SageMaker starts it with `serve`."""

import subprocess
import sys

from sagemaker_pytorch_serving_container import serving

if sys.argv[1:] == ["serve"]:
    serving.main()
    # The toolkit returns when TorchServe was started as a process of its own; the container lives on.
    subprocess.call(["tail", "-f", "/dev/null"])
else:
    sys.exit(subprocess.call(sys.argv[1:]))
