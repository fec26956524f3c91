"""Fashion-MNIST: 70,000 pieces of clothing, 28 x 28 grey (Xiao, Rasul and Vollgraf, 2017)."""

from __future__ import annotations

from efc.data.download import RemoteFile
from efc.data.mnist import from_idx, torchvision_layout
from efc.data.spec import DatasetSpec

_MIRROR = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
_FILES = (
    ("train-images-idx3-ubyte.gz", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
    ("train-labels-idx1-ubyte.gz", "md5:25c81989df183df01b3e8a0aad5dffbe", 29515),
    ("t10k-images-idx3-ubyte.gz", "md5:bef4ecab320f06d8554ea6380940ec79", 4422102),
    ("t10k-labels-idx1-ubyte.gz", "md5:bb300cfdad3c16e7a12a480ee83cd310", 5148),
)
FILES = tuple(RemoteFile(name, md5, size, (_MIRROR + name,)) for name, md5, size in _FILES)
SPEC = DatasetSpec(
    name="fashion-mnist",
    title="pieces of clothing, 28 x 28 grey",
    class_names=("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"),
    train=60000,
    test=10000,
    shape=(28, 28),
    files=FILES,
    from_files=from_idx,
    present=torchvision_layout("FashionMNIST", FILES),
    size=100 << 20,
)
