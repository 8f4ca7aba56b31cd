"""Texts of which tokenizers make many tokens: ten languages, code, base64 and odd characters."""

import itertools
from collections.abc import Iterator
from random import Random

PHRASES = (
    "The quick brown fox jumps over the lazy dog",
    "El veloz murciélago hindú comía feliz cardillo y kiwi",
    "À noite, vovô Kowalsky vê o ímã cair no pé do pinguim",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "Съешь же ещё этих мягких французских булок",
    "敏捷的棕色狐狸跳过了懒狗",
    "いろはにほへと ちりぬるを",
    "다람쥐 헌 쳇바퀴에 타고파",
    "نص حكيم له سر قاطع",
    "ऋषियों को सताने वाले दुष्ट राक्षसों",
    "def f(x):\n\treturn {**x, 'a': [1, 2.5, None]}  # <=>",
    "aGVsbG8gd29ybGQ7IHRoaXMgaXMgYmFzZTY0IQ==",
    '{"key":"va\\"lue","n":[0,1e-9,true]}',
    "\U0001f469\u200d\U0001f4bb\U0001f1e7\U0001f1f7 e\u0301\u0323 \ufeff\u202e",
)


def texts() -> Iterator[str]:
    """More than 200 texts in ten languages, code, base64 and odd characters."""
    random = Random(5)
    for phrase, times in itertools.product(PHRASES, (1, 2, 7, 40)):
        yield phrase * times
        yield "".join(random.sample(phrase * times, k=len(phrase * times)))
        yield "\n".join([phrase, *random.choices(PHRASES, k=times)])
        yield phrase[: random.randrange(1, len(phrase))] + '\\"\x00\t' * times
